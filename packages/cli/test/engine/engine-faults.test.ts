import { fork } from 'node:child_process'
import { join } from 'node:path'
import { plainEnvironment } from '@cllm/core/testing'
import { resolveModel, spawnEngine } from 'cllm'
import t from 'tap'
import { childChannel } from '../../src/engine/process-channel.js'
import { quietSettings } from './test-settings.js'

t.test('a frozen engine is replaced, and its streams continue', async (t) => {
  const { path: modelPath } = await resolveModel('stories15m')
  const settings = {
    backend: { modelPath, slots: 4, gpu: 'off', threads: 1 },
    ...quietSettings,
  } as const
  // On a busy machine it may be taken to hang when it does not: its streams go on then, too.
  const supervisor = { hangTimeoutMs: 3000 }
  const engine = await spawnEngine(settings, { env: plainEnvironment(process.env), supervisor })
  t.teardown(() => engine.kill())
  const sampling = { temperature: 0, ignoreEos: true }
  const request = { prompt: { text: 'Once upon a time' }, maxTokens: 60, sampling }
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
    const channel = childChannel(child)
    channel.onMessage(() => child.disconnect())
    channel.onClose(resolve)
  })
  t.match(await reason, /SIGKILL/)
})
