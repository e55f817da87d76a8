import { type StdioOptions, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { plainEnvironment } from '@cllm/testing'
import t from 'tap'
import { localSources } from './models/local-sources.js'
import { firstChildOf, gone, quickModel, serve, story } from './plain-process.js'
import { model } from './serve-process.js'
import { bin, start, startNode } from './start-process.js'
import { until } from './until.js'

t.test('Ctrl-C ends a download, and leaves no lock', async (t) => {
  const folder = t.testdir({})
  const sources = await localSources(folder)
  t.teardown(() => sources.close())
  const spec = sources.upload('test/stories', 'stories.gguf', await readFile(model))
  sources.halt()
  const cache = join(folder, 'models')
  const own = { HF_ENDPOINT: sources.env['HF_ENDPOINT'], CLLM_CACHE: cache }
  const child = start(t, ['pull', spec], own)
  const errors = createInterface(child.stderr)
  const exit = once(child, 'exit')
  await once(errors, 'line')
  process.kill(-child.pid!, 'SIGINT')
  t.same(await exit, [130, null])
  t.notOk((await readdir(cache)).some((name) => name.endsWith('.lock')))
})

t.test('a command whose reader has left, as behind `| head`, ends in order', async (t) => {
  const child = start(t, ['simulate', '--requests', '20', '--policy', 'chunked+fcfs'])
  child.stdout.destroy()
  const [errors, exit] = await Promise.all([text(child.stderr), once(child, 'exit')])
  t.same([errors, exit], ['', [0, null]])
})

const full = '/dev/full'
const isLinux = existsSync(full)
t.test('an output that cannot be written is told in one line', { skip: !isLinux }, async (t) => {
  const { url } = await serve(t, {}, ...quickModel)
  const stdio: StdioOptions = ['ignore', openSync(full, 'w'), 'pipe']
  t.teardown(() => closeSync(stdio[1] as number))
  const env = plainEnvironment(process.env)
  for (const command of [['models'], ['run', 'Once upon a time', '--url', url]]) {
    const { status, stderr } = spawnSync(process.execPath, [bin, ...command], { env, stdio })
    t.equal(status, 1)
    t.match(String(stderr), /^error: Cannot write the output: ENOSPC[^\n]*\n$/)
  }
})

t.test('Ctrl-C ends a measurement in order', async (t) => {
  const { child, url, exit } = await serve(t, {}, ...quickModel)
  const load = [
    '--target',
    url,
    '--requests',
    '100000',
    '--concurrency',
    '2',
    '--output-len',
    '100',
  ]
  const bench = start(t, ['bench', 'serve', ...load, '--json'])
  const result = text(bench.stdout)
  const ended = once(bench, 'exit')
  const isBusy = async () => {
    const slots = (await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[]
    return slots.some((slot) => slot.is_processing)
  }
  await until(isBusy)
  process.kill(-bench.pid!, 'SIGINT')
  t.same(await ended, [130, null])
  t.match(await result, /"interrupted"/, 'and tells what it has measured')
  child.kill('SIGTERM')
  t.same(await exit, [0, null])
})

t.test('a measurement in a process of its own ends with the one that started it', async (t) => {
  const work = ['-m', model, '--gpu', 'off', '--threads', '1', '-p', '32', '-n', '64', '-r', '1000']
  const measure = async () => {
    const bench = start(t, ['bench', 'engine', ...work])
    const ended = once(bench, 'exit')
    return { bench, inner: await firstChildOf(bench), ended }
  }
  const killed = await measure()
  killed.bench.kill('SIGKILL')
  await gone(killed.inner)

  const asked = await measure()
  asked.bench.kill('SIGTERM') // this one alone, as a supervisor does
  const [code] = await asked.ended
  t.ok(code === 130 || code === 1, `the one inside ends first, with ${code}`)
  await gone(asked.inner)
})

t.test('what nothing catches in a plug-in ends its process with a line of the log', async (t) => {
  const folder = t.testdir({
    'floating.js': `
      const error = () => new Error('nobody waits for this')
      export default {
        name: 'floating', apiVersion: 1,
        register(host) {
          host.registerProtocol({ name: 'floating', doc: '-', create: () => ({ name: 'floating', routes: [
            { method: 'get', path: '/float', access: 'open', summary: '-', handle() { void Promise.reject(error()) } },
          ] }) })
          host.registerSampler({ name: 'floating', doc: '-', create: () => ({ apply() { void Promise.reject(error()) } }) })
        },
      }`,
  })
  const log = join(folder, 'log')
  const plugin = ['--plugin', join(folder, 'floating.js')]
  const served = await serve(t, {}, ...plugin, '--log-level', 'error', '--log-file', log)
  /** What the server's process says, or those of its engines. */
  const told = async (by: 'server' | 'engine') =>
    (await readFile(log, 'utf8'))
      .split('\n')
      .filter((line) =>
        line.includes('nothing catches this, the process ends: nobody waits for this'),
      )
      .map((line) => JSON.parse(line) as { readonly pid: number })
      .filter(({ pid }) => (pid === served.child.pid) === (by === 'server'))
  const sampled = await served.generate({
    ...story,
    max_tokens: 2,
    samplers: [{ name: 'floating' }],
  })
  await sampled.text()
  t.ok((await told('engine')).length > 0, "in the engine's process")
  t.same(await told('server'), [])
  await fetch(`${served.url}/float`).catch(() => {})
  t.same(await served.exit, [1, null])
  const lines = await told('server')
  t.equal(lines.length, 1)
  t.match(lines, [{ level: 50, code: 'internal', err: { stack: /floating\.js/ } }])
})

t.test('a program that loads a model keeps its own handler of signals', async (t) => {
  const program = fileURLToPath(new URL('own-handler.js', import.meta.url))
  const child = startNode(t, [program, model])
  const lines = createInterface(child.stdout)
  await once(lines, 'line')
  const last = once(lines, 'line')
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  t.same(await exit, [0, null])
  t.same(await last, ['in order'])
})
