import { once } from 'node:events'
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createLlamaCppBackend } from '@cllm/backend-llamacpp'
import { libraryName, readBuilds, type RunProgram } from '@cllm/backend-llamacpp/native-build'
import { silentLogger, systemClock } from '@cllm/core'
import { plainEnvironment } from '@cllm/testing'
import { writeSyntheticModel } from '@cllm/gguf'
import t, { type Test } from 'tap'
import type { CommandIo } from '../../../src/commands/command.js'
import { engineLikeProcess, programRunner } from '../../../src/commands/native/spawn-program.js'
import { buildDisplay, nativeBuild } from '../../../src/commands/native/native-build.js'
import { dispatch } from '../../../src/dispatch.js'
import { gone } from '../../plain-process.js'
import { start } from '../../start-process.js'

function ioIn(folder: string, signal = new AbortController().signal) {
  const written = { stdout: '', stderr: '' }
  const io: CommandIo = {
    stdout: { write: (text) => (written.stdout += text) },
    stderr: { write: (text) => (written.stderr += text) },
    // With the thread pool of an engine, so that no process is started for it.
    env: { CLLM_CACHE: folder, CLLM_GPU: 'off', UV_THREADPOOL_SIZE: '1' },
    signal,
  }
  const run = async (command: string) => {
    Object.assign(written, { stdout: '', stderr: '' })
    return { code: await dispatch(command.split(' '), io), ...written }
  }
  return { io, written, run }
}

/** CMake and git that make a library of what node-llama-cpp ships. */
function tools(library: string, stop?: () => void): RunProgram {
  return async (program, args, { signal }) => {
    if (args[0] === '-S') {
      const build = args[3]!
      await mkdir(join(build, 'out'), { recursive: true })
      await writeFile(join(build, 'toolchain.txt'), 'compiler=Test 1.0\nflags=-O9\nopenmp=ON\n')
    }
    if (args[0] === '--build') {
      stop?.()
      signal.throwIfAborted()
      for (const target of ['llama', 'media'] as const) {
        await copyFile(library, join(args[1]!, 'out', libraryName(process.platform, target)))
      }
    }
    return { exitCode: 0, output: program === 'cmake' ? 'cmake version 3.25.1' : '' }
  }
}

/** The file of the llama.cpp that this process has loaded. */
async function prebuiltLlama(modelPath: string): Promise<string> {
  const services = { clock: systemClock, logger: silentLogger }
  const options = { modelPath, gpu: 'off', threads: 1 } as const
  const backend = await createLlamaCppBackend(options, services)
  t.equal(backend.model.details?.['native'], 'prebuilt')
  await backend.dispose()
  const { sharedObjects } = process.report.getReport() as unknown as { sharedObjects: string[] }
  return sharedObjects.find((path) => /[\\/](lib)?llama\.v[\d.]+\.\w+$/.test(path))!
}

async function tinyModel(t: Test) {
  const folder = t.testdir({ cache: {} })
  const model = join(folder, 'tiny.gguf')
  await writeSyntheticModel({ like: 'tiny', out: model, seed: 1 })
  return { model, cache: join(folder, 'cache'), native: join(folder, 'cache', 'native') }
}

t.test('a folder that cannot be made is told', async (t) => {
  const file = join(t.testdir({ file: '' }), 'file')
  t.match(await ioIn(file).run('native remove'), {
    code: 2,
    stderr: /^error: the folder of local builds: ENOTDIR.*\n$/,
  })
})

t.test('a build is measured, kept, shown and removed', async (t) => {
  const { model, cache, native } = await tinyModel(t)
  const { io, written, run } = ioIn(cache)
  t.match(await run('native'), { code: 0, stdout: /prebuilt library.*no local build/s })
  if (process.platform === 'win32') return // a library does not show its dependencies' functions

  const llama = tools(await prebuiltLlama(model))
  const argv = ['--model', model, '--threads', '1', '--jobs', '2']
  t.equal(await nativeBuild(argv, io, llama), 0)
  t.match(written.stderr, /compiling \(plain\)\n.*compiling \(openmp\)\n.*measuring\n.*100 %\n/s)
  const [build, ...others] = await readBuilds(native)
  t.same(others, [])
  t.same((await readdir(native)).length, 1, 'nothing else is left')
  const { info, library } = build!
  t.match(info, { compiler: 'Test 1.0', flags: '-O9', measured: { model, threads: 1 } })
  t.same(Object.keys(info.measured.figures), ['prebuilt', 'plain', 'openmp'])
  t.equal(info.fastest === 'prebuilt', library === undefined)
  const verdict = library ?? 'it stays in use'
  t.ok(written.stdout.includes(verdict), written.stdout)
  for (const name of ['prebuilt', 'plain', 'openmp']) t.match(written.stdout, name)

  const shown = await run('native')
  t.match(shown.stdout, /1 thread\n$/)
  t.equal(
    /built on \d{4}-\d\d-\d\d with Test 1\.0 \(-O9\)/.test(shown.stdout),
    library !== undefined,
  )
  const json = JSON.parse((await run('native --json')).stdout) as object
  t.match(json, { runs: info.fastest, library: library ?? null, gpu: false, build: info })
  io.env['CLLM_NATIVE'] = 'addon'
  t.match(await run('native'), { stdout: /^the prebuilt addon of node-llama-cpp computes/ })
  t.match(await run('native remove'), { code: 0, stdout: 'deleted one build\n' })
  t.match(await run('native remove'), { code: 0, stdout: /^no local builds/ })
  t.same(await readdir(native), [])
})

t.test('what encodes images is built alone, for other machines', async (t) => {
  const { model, cache, native } = await tinyModel(t)
  const { io, written } = ioIn(cache)
  const file = join(cache, 'libcllm-media.so')
  t.equal(await nativeBuild(['--media', file, '--jobs', '1'], io, tools(model)), 0)
  t.match(written.stderr, /compiling/)
  t.same((await readFile(file)).length, (await readFile(model)).length)
  t.same(await readdir(cache), ['libcllm-media.so'], 'and nothing else is left')
  await t.rejects(readdir(native))
  const unwritable = { code: 'native_build_failed', message: /cannot be written: E/ }
  const nowhere = join(cache, 'none', 'libcllm-media.so')
  await t.rejects(nativeBuild(['--media', nowhere], io, tools(model)), unwritable)
  await t.rejects(nativeBuild(['--media', cache], io, tools(model)), unwritable, 'a folder')
})

t.test('a build that is stopped leaves nothing', async (t) => {
  const { model, cache, native } = await tinyModel(t)
  const controller = new AbortController()
  const { io } = ioIn(cache, controller.signal)
  const stopped = tools(model, () => controller.abort('SIGINT'))
  const reason = await nativeBuild(['--model', model], io, stopped).catch((error: unknown) => error)
  t.equal(reason, 'SIGINT')
  t.same(await readdir(native), [])
})

t.test('a model that cannot be had is told before anything is compiled', async (t) => {
  const { cache, native } = await tinyModel(t)
  const { io } = ioIn(cache)
  const none: RunProgram = async () => await Promise.reject(new Error('a program was run'))
  await t.rejects(nativeBuild(['--model', cache], io, none), {
    code: 'model_unavailable',
    message: /expected a GGUF file, found a folder/,
  })
  t.same(await readdir(native), [])
})

t.test('wrong command lines', async (t) => {
  const { run } = ioIn(t.testdir())
  for (const [command, message] of [
    ['native build --variant fast', '--variant: expected plain, openmp or both, got "fast"'],
    ['native build --jobs 0', '--jobs: expected a whole number from 1 to 999, got "0"'],
    ['native build now', 'unexpected argument "now"'],
    ['native bild', 'unknown command native bild; did you mean native build?'],
    ['native --jsn', 'unknown flag --jsn; did you mean --json?'],
  ] as const) {
    const { code, stderr } = await run(command)
    t.equal(code, 2)
    t.ok(stderr.includes(message), stderr)
  }
  t.match(await run('native --help'), { code: 0, stdout: /^Usage: cllm native \[/ })
  t.match(await run('native build --help'), { code: 0, stdout: /^Usage: cllm native build/ })
})

t.test('a program that is stopped ends with all that it started', async (t) => {
  const run = programRunner(plainEnvironment(process.env))
  const { signal } = new AbortController()
  const print = 'console.log("out"); console.error("err"); process.exitCode = 3'
  const lines: string[] = []
  const ended = await run(process.execPath, ['-e', print], {
    signal,
    onLine: (line) => lines.push(line),
  })
  t.equal(ended.exitCode, 3)
  t.same(lines.sort(), ['err', 'out'])
  t.same(ended.output.trimEnd().split('\n').sort(), ['err', 'out'])
  await t.rejects(run('no-such-program-here', [], { signal }), { code: 'ENOENT' })

  const controller = new AbortController()
  const nested = `const { spawn } = require('node:child_process')
const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
console.log(child.pid)
setInterval(() => {}, 1000)`
  let pid = 0
  const onLine = (line: string) => {
    pid = Number(line)
    controller.abort('SIGTERM')
  }
  const running = run(process.execPath, ['-e', nested], { signal: controller.signal, onLine })
  t.equal(await running.catch((reason: unknown) => reason), 'SIGTERM')
  t.ok(pid > 0)
  await gone(pid)
  const again = run(process.execPath, ['-e', ''], { signal: controller.signal })
  t.equal(await again.catch((reason: unknown) => reason), 'SIGTERM', 'nothing is started any more')
})

t.test('Ctrl-C ends the compilers and removes what was begun', async (t) => {
  const folder = t.testdir({ cache: {}, bin: {} })
  const cache = join(folder, 'cache')
  // A CMake that compiles for ever.
  const script = `#!/bin/sh
case "$1" in
--version) echo cmake version 3.25.1 ;;
-S) mkdir -p "$4/out"; echo openmp=OFF > "$4/toolchain.txt" ;;
--build) echo "[ 50%] Building"; sleep 600 ;;
esac
`
  await writeFile(join(folder, 'bin', 'cmake'), script, { mode: 0o755 })
  await writeFile(join(folder, 'bin', 'git'), '#!/bin/sh\n', { mode: 0o755 })
  if (process.platform === 'win32') return
  const PATH = `${join(folder, 'bin')}:${process.env['PATH']}`
  const env = { CLLM_CACHE: cache, PATH }
  const child = start(t, ['native', 'build', '--variant', 'plain'], env)
  const lines: string[] = []
  createInterface(child.stderr).on('line', (line) => {
    lines.push(line)
    if (line === '40 %') child.kill('SIGINT')
  })
  const [code] = (await once(child, 'exit')) as [number]
  t.equal(code, 130, lines.join('\n'))
  t.equal(lines.at(-1), 'interrupted')
  t.same(await readdir(join(cache, 'native')), [])
})

t.test('a process that computes and is ended by a signal', async (t) => {
  const folder = t.testdir({ 'fault.cjs': "process.kill(process.pid, 'SIGSEGV')" })
  const { io, written } = ioIn(folder)
  const env = plainEnvironment(process.env, {
    NODE_OPTIONS: `--require ${join(folder, 'fault.cjs')}`,
  })
  const command = engineLikeProcess(['native', 'build'], async () => 0, '1')
  t.equal(await command([], { ...io, env }), 1)
  t.equal(written.stderr, 'error: SIGSEGV ended the process that computes\n')
})

t.test('one line on a terminal', async (t) => {
  let written = ''
  const terminal = { isTTY: true, columns: 80, write: (text: string) => (written += text) }
  const { show, close } = buildDisplay(terminal)
  show({ kind: 'stage', text: 'compiling (plain)' })
  show({ kind: 'share', done: 0.43 })
  show({ kind: 'stage', text: 'measuring' })
  close()
  close()
  t.match(written, /43 % \| compiling \(plain\)/)
  t.match(written, / 0 % \| measuring/)
})
