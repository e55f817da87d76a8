import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  buildLibraries,
  buildMediaLibrary,
  type BuildOptions,
  type BuildProgress,
  installedSource,
  shareOf,
  unpackSource,
} from '../../../src/native/build/build-libraries.js'
import {
  cmakeProject,
  libraryName,
  type ProgramResult,
  type RunProgram,
} from '../../../src/native/build/cmake-project.js'
import { llamaFunctions, mediaFunctions } from '../../../src/native/ffi/functions.js'
import { nodeLlamaCppVersion } from '../../../src/native/native.js'

import t, { type Test } from 'tap'

const missing = (program: string) =>
  Object.assign(new Error(`spawn ${program} ENOENT`), { code: 'ENOENT' })

/** git and CMake, as far as the builder sees them. */
interface Tools {
  readonly openmp?: boolean
  /** What they do instead, by the beginning of their command line. */
  readonly instead?: Readonly<Record<string, () => Partial<ProgramResult>>>
}

function scripted(folder: string, { openmp = true, instead = {} }: Tools = {}) {
  const calls: string[] = []
  let variant = ''
  const run: RunProgram = async (program, args, { signal, onLine }) => {
    signal.throwIfAborted()
    const call = [program, ...args].join(' ')
    calls.push(call.replaceAll(folder, ''))
    const own = Object.entries(instead).find(([start]) => call.startsWith(start))?.[1]
    if (own !== undefined) return { exitCode: 0, output: '', ...own() }
    const build = join(folder, 'build')
    if (call === 'cmake --version') return { exitCode: 0, output: 'cmake version 3.25.1\n' }
    if (program === 'cmake' && args[0] === '-S') {
      variant = call.includes('GGML_OPENMP=ON') ? 'openmp' : 'plain'
      const isOn = variant === 'openmp' && openmp
      await mkdir(join(build, 'out'), { recursive: true })
      const lines = ['compiler=GNU 12', 'flags=-O3 -march=a=b', `openmp=${isOn ? 'ON' : 'OFF'}`]
      await writeFile(join(build, 'toolchain.txt'), lines.join('\n'))
    }
    if (program === 'cmake' && args[0] === '--build') {
      for (const line of ['[ 50%] Building a.o', 'a warning', '[100%] Built']) onLine?.(line)
      await writeFile(join(build, 'out', 'libcllm-llama.so'), variant)
      await writeFile(join(build, 'out', 'libcllm-media.so'), variant)
    }
    return { exitCode: 0, output: '' }
  }
  return { run, calls }
}

const source = async () => installedSource()!

function setUp(t: Test, tools: Tools = {}, changes: Partial<BuildOptions> = {}) {
  const folder = t.testdir()
  const { run, calls } = scripted(folder, tools)
  const progress: BuildProgress[] = []
  const build = async () =>
    await buildLibraries({
      folder,
      variants: ['plain', 'openmp'],
      source,
      jobs: 3,
      platform: 'linux',
      run,
      signal: new AbortController().signal,
      onProgress: (one) => progress.push(one),
      ...changes,
    })
  return { folder, calls, progress, build }
}

t.test('both variants, from one source and in one folder', async (t) => {
  const { folder, calls, progress, build } = setUp(t)
  const built = await build()
  t.match(built, [
    { variant: 'plain', compiler: 'GNU 12', flags: '-O3 -march=a=b' },
    { variant: 'openmp', file: join(folder, 'openmp', 'libcllm-llama.so') },
  ])
  for (const { variant, file } of built) t.equal(await readFile(file, 'utf8'), variant)
  const kinds = ['git --v', 'cmake --v', 'git clone', 'git -C', 'cmake -S', 'cmake --build']
  t.match(calls, [...kinds, ...kinds.slice(-2)])
  t.match(calls[4], /-DBUILD_SHARED_LIBS=OFF.*-DGGML_NATIVE=ON.*CLLM_SOURCE=\/source.*OPENMP=OFF/)
  t.match(calls[5], '--build /build --config Release --target cllm-llama cllm-media --parallel 3')
  const stages = progress.map((one) => (one.kind === 'stage' ? one.text : one.done))
  const unpacking = 'unpacking the source of llama.cpp'
  const each = (name: string) => [`configuring (${name})`, `compiling (${name})`, 0.5, 1]
  t.same(stages, [unpacking, ...each('plain'), ...each('openmp')])
  const text = await readFile(join(folder, 'project', 'CMakeLists.txt'), 'utf8')
  t.match(text, 'add_subdirectory("${CLLM_SOURCE}" llama')
})

t.test('what encodes images alone, for every CPU of its kind', async (t) => {
  const folder = t.testdir()
  const { run, calls } = scripted(folder)
  const { signal } = new AbortController()
  const onProgress = () => {}
  const from = { folder, source, jobs: 2, platform: 'linux', run, signal, onProgress }
  t.equal(await buildMediaLibrary(from), join(folder, 'build', 'out', 'libcllm-media.so'))
  t.match(calls.at(-2), /-DGGML_NATIVE=OFF.*OPENMP=OFF/)
  t.match(calls.at(-1), /--target cllm-media --parallel 2$/)
  const again = join(folder, 'again')
  await mkdir(again)
  const broken = scripted(again, { instead: { 'cmake --build': () => ({ exitCode: 1 }) } })
  const failing = buildMediaLibrary({ ...from, folder: again, run: broken.run })
  await t.rejects(failing, { code: 'native_build_failed' })
})

t.test('a compiler without OpenMP', async (t) => {
  t.match(await setUp(t, { openmp: false }).build(), [{ variant: 'plain' }])
  const { build, calls } = setUp(t, { openmp: false }, { variants: ['openmp'] })
  await t.rejects(build(), { code: 'native_build_failed', message: /OpenMP.*--variant plain/ })
  t.notOk(calls.some((call) => call.startsWith('cmake --build')))
})

t.test('what is missing is named', async (t) => {
  const fail = (program: string) => () => {
    throw missing(program)
  }
  const output = (text: string) => () => ({ exitCode: 1, output: text })
  const cases: [Tools['instead'], RegExp, string?][] = [
    [{ 'git --version': fail('git') }, /needs git: `apt-get install git cmake make g\+\+`/],
    [{ 'cmake --version': fail('cmake') }, /needs cmake: `xcode-select/, 'darwin'],
    [{ 'cmake --version': fail('cmake') }, /needs cmake: install Git, and.*Visual St/, 'win32'],
    [{ 'cmake --version': () => ({ output: 'cmake version 3.9.0' }) }, /3\.14 or later, got.*3\.9/],
    [
      { 'cmake -S': output('CMake Error: No CMAKE_CXX_COMPILER could be found.') },
      /a C\+\+ compiler and make: /,
    ],
    [
      { 'cmake -S': output('a\nCMake Error at x\nwhy') },
      /prepare the build:\nCMake Error at x\nwhy$/,
    ],
    [
      { 'cmake --build': output('[1/2] c++ a\na.c:1: error: no\n') },
      /compiled:\na\.c:1: error: no$/,
    ],
    [{ 'cmake --build': output('Killed\n') }, /compiled:\nKilled$/],
    [
      { 'git clone': output('fatal: no space left') },
      /could not unpack.*:\nfatal: no space left$/s,
    ],
  ]
  for (const [instead, message, platform = 'linux'] of cases) {
    const { build } = setUp(t, instead === undefined ? {} : { instead }, { platform })
    await t.rejects(build(), { code: 'native_build_failed', message })
  }
})

t.test('a build that is stopped', async (t) => {
  const controller = new AbortController()
  const instead = { 'git clone': () => (controller.abort('SIGINT'), {}) }
  const { build, calls } = setUp(t, { instead }, { signal: controller.signal })
  t.equal(await build().catch((reason: unknown) => reason), 'SIGINT')
  t.match(calls.at(-1), /^git clone/)
})

t.test('progress', async (t) => {
  t.equal(shareOf('[  7%] Building CXX object a.o'), 0.07)
  t.equal(shareOf('[12/96] Building CXX object a.o'), 0.125)
  for (const line of ['', '-- Configuring done', 'x [ 7%]', '[0/0] x']) {
    t.equal(shareOf(line), undefined)
  }
})

t.test('every function that is bound is exported', async (t) => {
  const files = cmakeProject()
  for (const name of Object.keys(llamaFunctions)) {
    t.match(files.get('exports.def'), new RegExp(`^ {2}${name}$`, 'm'))
    t.match(name, /^llama_/, 'by the patterns of the other two files')
  }
  for (const name of Object.keys(mediaFunctions)) {
    t.match(files.get('exports-media.def'), new RegExp(`^ {2}${name}$`, 'm'))
    t.match(name, /^(?:mtmd|ggml)_/)
  }
  t.match(files.get('exports.map'), /global: llama_\*; ggml_\*; mtmd_\*; local: \*;/)
  t.equal(libraryName('linux', 'media'), 'libcllm-media.so')
  const platforms = ['linux', 'darwin', 'win32']
  t.same(
    platforms.map((platform) => libraryName(platform)),
    ['libcllm-llama.so', 'libcllm-llama.dylib', 'cllm-llama.dll'],
  )
})

t.test('GCC keeps all of a configuration of AMX tiles', async (t) => {
  const folder = t.testdir({
    'amx-tiles.h': cmakeProject().get('amx-tiles.h')!,
    'one.cpp': `#include <immintrin.h>
void configure() {
  alignas(64) unsigned char config[64] = {};
  config[0] = 1;
  config[50] = 93;
  _tile_loadconfig(config);
}`,
  })
  const at = (name: string) => join(folder, name)
  const args = [
    '-S',
    '-O2',
    '-mamx-tile',
    '-include',
    at('amx-tiles.h'),
    at('one.cpp'),
    '-o',
    at('s'),
  ]
  const compiled = await new Promise((resolve) => {
    execFile('gcc', args, (error) => resolve(error === null))
  })
  if (compiled !== true) {
    t.pass('skipped: there is no GCC here that knows AMX')
    return
  }
  t.match(await readFile(at('s'), 'utf8'), /movb\s+\$93,/)
})

t.test('the source of a node-llama-cpp that is known here alone', async (t) => {
  const found = (version: string) => {
    const folder = t.testdir({ 'package.json': JSON.stringify({ version }) })
    return installedSource(() => join(folder, 'dist', 'index.js'))
  }
  t.match(found(nodeLlamaCppVersion), join('llama', 'gitRelease.bundle'))
  t.equal(found('3.10.0'), undefined, 'a user has another one')
  const missing = (): string => {
    throw new Error('Cannot find module')
  }
  t.equal(installedSource(missing), undefined)
})

t.test('the source in the package', async (t) => {
  const run: RunProgram = async (program, args) =>
    await new Promise((resolve, reject) => {
      execFile(program, [...args], (error, stdout, stderr) => {
        if (error !== null && typeof error.code !== 'number') reject(error)
        else resolve({ exitCode: Number(error?.code ?? 0), output: stdout + stderr })
      })
    })
  const { signal } = new AbortController()
  const hasGit = await run('git', ['--version'], { signal }).then(
    () => true,
    () => false,
  )
  if (!hasGit) {
    t.pass('skipped: there is no git to read the source bundle with')
    return
  }
  const source = join(t.testdir(), 'source')
  await unpackSource(installedSource()!, source, run, { signal })
  for (const file of ['CMakeLists.txt', 'src/llama.cpp', 'ggml/src/ggml-cpu/ggml-cpu.c']) {
    t.ok(existsSync(join(source, file)), file)
  }
  await t.rejects(unpackSource(`${source}.bundle`, `${source}2`, run, { signal }), {
    code: 'native_build_failed',
    message: /the source of llama\.cpp is missing/,
  })
})
