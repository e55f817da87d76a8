import { ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { createLlamaCppBackend } from '@cllm/backend-llamacpp'
import { chooseBuild, readBuilds } from '@cllm/backend-llamacpp/native-build'
import { defaultSampling, silentLogger, SimulatedClock, systemClock } from '@cllm/core'
import { plainEnvironment } from '@cllm/testing'
import { writeSyntheticModel } from '@cllm/gguf'
import { resolveModel, spawnEngine } from 'cllm'
import t from 'tap'
import { availableCores, availableMemory, cacheSize } from '../../src/engine/available.js'
import { findNativeLibraries, thisMachine } from '../../src/engine/native-library.js'
import { childLink } from '../../src/engine/process-channel.js'
import { nativeFolder } from '../../src/models/cache-folder.js'
import { quietSettings } from './test-settings.js'

t.test('cores that a process may use', async (t) => {
  const files =
    (contents: Readonly<Record<string, string>>) =>
    (file: string): string => {
      const content = contents[file.replace('/sys/fs/cgroup/', '')]
      if (content === undefined) throw new Error('ENOENT')
      return content
    }
  t.equal(availableCores(8, files({})), 8, 'no cgroups')
  t.equal(availableCores(8, files({ 'cpu.max': 'max 100000\n' })), 8, 'no limit')
  t.equal(availableCores(8, files({ 'cpu.max': '200000 100000\n' })), 2)
  t.equal(availableCores(8, files({ 'cpu.max': '150000 100000\n' })), 2)
  t.equal(availableCores(2, files({ 'cpu.max': '400000 100000\n' })), 2)
  const old = (quota: string) => ({
    'cpu/cpu.cfs_quota_us': quota,
    'cpu/cpu.cfs_period_us': '100000\n',
  })
  t.equal(availableCores(8, files(old('300000\n'))), 3)
  t.equal(availableCores(8, files(old('-1\n'))), 8)
  const here = availableCores()
  t.ok(here >= 1 && here <= availableParallelism())
})

t.test('what a process may still take', async (t) => {
  const total = 20e9
  t.equal(availableMemory(0, { limit: undefined, total, used: 1e9 }), 19e9)
  t.equal(availableMemory(0, { limit: 0, total, used: 1e9 }), 19e9)
  t.equal(availableMemory(0, { limit: 8e9, total, used: 1e9 }), 7e9)
  t.equal(availableMemory(4e9, { limit: 8e9, total, used: 1e9 }), 3e9, 'beside other engines')
  t.equal(availableMemory(0, { limit: 8e9, total, used: 9e9 }), 0)
  t.ok(availableMemory() > 0)
})

t.test('engines share the RAM of their caches', async (t) => {
  const mebibyte = 2 ** 20
  t.equal(cacheSize(100, 1e12, 1), 100 * mebibyte)
  t.equal(cacheSize(100, 1e12, 4), 25 * mebibyte, 'what is set is for all of them')
  t.equal(cacheSize('auto', 1e12, 2), 4096 * mebibyte)
  t.equal(cacheSize('auto', 8e9, 2), 1e9)
})

t.test('the machine', async (t) => {
  const here = thisMachine()
  t.match(here, { platform: process.platform, arch: process.arch, cpu: /./ })
  const unreadable = () => {
    throw new Error('ENOENT')
  }
  t.same(thisMachine(unreadable), { ...here, features: [] })
  if (process.platform !== 'linux') return
  t.ok(here.features.length > 3, 'Linux names the instructions')
  const x64 = thisMachine(() => 'processor\t: 0\nflags\t\t: fpu sse avx2\n\nflags\t: other\n')
  t.same(x64.features, ['fpu', 'sse', 'avx2'])
  t.same(thisMachine(() => 'Features\t: fp asimd sve\n').features, ['fp', 'asimd', 'sve'])
})

t.test('the library of this machine is found, another one only named', async (t) => {
  const cache = t.testdir()
  const warnings: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => warnings.push(message) }
  const find = async () => (await findNativeLibraries({ CLLM_CACHE: cache }, logger)).library
  t.equal(await find(), undefined)
  const figures = { prebuilt: { prefill: 1, decode: [1, 1, 1] } }
  const write = async (name: string, changes: object) => {
    const folder = join(nativeFolder({ env: { CLLM_CACHE: cache } }), name)
    await mkdir(folder, { recursive: true })
    const info = {
      schema: 1,
      library: 'x.so',
      fastest: 'plain',
      llamaVersion: '0.5.0-dev',
      nodeLlamaCppVersion: '3.22.1',
      machine: thisMachine(),
      compiler: '',
      flags: '',
      builtAt: '2025-01-01T00:00:00Z',
      measured: { model: 'x', threads: 1, figures },
      ...changes,
    }
    await writeFile(join(folder, 'build.json'), JSON.stringify(info))
    await writeFile(join(folder, 'x.so'), '')
    return join(folder, 'x.so')
  }
  await write('other', { machine: { ...thisMachine(), cpu: 'Other' } })
  t.equal(await find(), undefined)
  t.match(warnings, [/not used \(it was built for the CPU Other/])
  const own = await write('own', {})
  t.equal(await find(), own)
  t.equal(warnings.length, 1)
})

const installed = chooseBuild(await readBuilds(nativeFolder({ env: process.env })), thisMachine())
const library = installed.build?.library
const skip = library === undefined && 'nothing was built in the cache: see `cllm native build`'

t.test('a library that was built here computes as the prebuilt one does', { skip }, async (t) => {
  const modelPath = join(t.testdir(), 'tiny.gguf')
  await writeSyntheticModel({ like: 'tiny', out: modelPath, seed: 1 })
  const compute = async (library?: string) => {
    const backend = await createLlamaCppBackend(
      { modelPath, gpu: 'off', threads: 2, slots: 2 },
      { clock: systemClock, logger: silentLogger, library },
    )
    const tokens = backend.tokenizer.encode('Once upon a time there was a <|im_end|> llama 🦙')
    const grammar = backend.createSampler({ ...defaultSampling, temperature: 0, seed: 1 }, tokens)
    const outputs = [tokens.length - 1]
    const item = { slot: 0, position: 0, tokens, outputs, sampler: grammar, logprobs: 5 }
    const step = await backend.step([item, { ...item, slot: 1 }])
    grammar.dispose()
    const { details } = backend.model
    await backend.dispose()
    return { native: details?.['native'], tokens, drawn: step.outputs.map(([one]) => one!) }
  }
  const [built, prebuilt] = [await compute(library), await compute()]
  t.same([built.native, prebuilt.native], ['built', 'prebuilt'])
  t.same(built.tokens, prebuilt.tokens)
  for (const [index, { logprobs }] of built.drawn.entries()) {
    const other = prebuilt.drawn[index]!.logprobs!
    for (const [rank, { logprob }] of logprobs!.top.entries()) {
      const difference = Math.abs(logprob - other.top[rank]!.logprob)
      t.ok(difference < 0.02, `rank ${rank}: ${difference}`)
    }
  }
})

t.test('a frozen engine is replaced, and its streams continue', async (t) => {
  const { path: modelPath } = await resolveModel('stories15m')
  const settings = {
    backend: { modelPath, slots: 4, gpu: 'off', threads: 1 },
    ...quietSettings,
  } as const
  // On a busy machine it may be taken to hang when it does not: its streams go on then, too.
  const supervisor = { hangTimeoutMs: 2000 }
  const engine = await spawnEngine(settings, { env: plainEnvironment(process.env), supervisor })
  t.teardown(() => engine.kill())
  const sampling = { temperature: 0, ignoreEos: true }
  const request = { prompt: { text: 'Once upon a time' }, maxTokens: 200, sampling }
  const draw = async (onToken: (count: number) => void = () => {}) => {
    const tokens: number[] = []
    for await (const event of engine.client.submit(request)) {
      if (event.type === 'token') onToken(tokens.push(event.token))
    }
    return tokens
  }
  const expected = await draw()
  const { restarts } = engine.client
  let stopped: number | undefined
  const tokens = await draw((count) => {
    if (count !== 10) return
    stopped = engine.pid()
    process.kill(stopped!, 'SIGSTOP')
  })
  t.same(tokens, expected)
  t.ok(engine.client.restarts > restarts)
  t.not(engine.pid(), stopped)
  t.throws(() => process.kill(stopped!, 0), { code: 'ESRCH' }, 'the stopped one is gone')
})

t.test('a process that loses its channel is killed, even if it does not notice', async (t) => {
  const folder = t.testdir({ 'deaf.cjs': `process.send('ready'); setInterval(() => {}, 1000)` })
  const child = fork(join(folder, 'deaf.cjs'), { env: plainEnvironment(process.env), execArgv: [] })
  t.teardown(() => child.kill('SIGKILL'))
  const reason = new Promise<string>((resolve) => {
    const { channel } = childLink(child)
    channel.onMessage(() => child.disconnect())
    channel.onClose(resolve)
  })
  t.match(await reason, /SIGKILL/)
})

t.test('a process that cannot be killed holds up no other one', async (t) => {
  const folder = t.testdir({ 'deaf.cjs': `process.send('ready'); setInterval(() => {}, 1000)` })
  const child = fork(join(folder, 'deaf.cjs'), { env: plainEnvironment(process.env), execArgv: [] })
  const gone = once(child, 'close')
  await once(child, 'message')
  const ignoring = t.intercept(ChildProcess.prototype, 'kill', { value: () => true })
  const log: unknown[] = []
  const logger = { ...silentLogger, error: (...said: unknown[]) => void log.push(said) }
  const clock = new SimulatedClock()
  const { channel, kill } = childLink(child, logger, clock)
  const reasons: string[] = []
  channel.onClose((reason) => reasons.push(reason))
  kill()
  clock.advance(9999)
  t.same([reasons, log], [[], []])
  clock.advance(1)
  t.match(reasons, ['its process could not be killed'])
  t.match(log, [[{ pid: child.pid }, /cannot be killed/]])
  ignoring.restore()
  child.ref()
  process.kill(child.pid!, 'SIGKILL')
  await gone
  clock.advance(60_000)
  t.same([reasons.length, log.length, clock.nextTimer()], [1, 1, undefined])
})

t.test("an engine's process loads neither the configuration nor the HTTP server", async (t) => {
  const seen = new Set<string>()
  const packages = new Set<string>()
  const follow = async (file: URL): Promise<void> => {
    if (seen.has(file.href)) return
    seen.add(file.href)
    for (const [, name = ''] of (await readFile(file, 'utf8')).matchAll(/ from '([^']+)'/g)) {
      if (name.startsWith('.')) await follow(new URL(name, file))
      else packages.add(name)
    }
  }
  await follow(new URL('../../dist/engine/engine-child.js', import.meta.url))
  t.ok(packages.has('@cllm/core'))
  for (const name of ['@cllm/http-koa', '@cllm/cluster', 'convict'])
    t.notOk(packages.has(name), name)
})
