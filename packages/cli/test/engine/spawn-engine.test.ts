import { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { CllmError, type GenerateEvent, type GenerateRequest, nextNumber } from '@cllm/core'
import { plainEnvironment } from '@cllm/testing'
import { writeSyntheticModel } from '@cllm/gguf'
import { policyNames } from '@cllm/scheduler'
import { resolveModel, spawnEngine, type EngineProcess } from 'cllm'
import { killAtExit } from '../../src/process/stop-signal.js'
import t from 'tap'
import { asLoaded } from '../../src/engine/spawn-engine.js'
import { until } from '../until.js'
import { quietSettings } from './test-settings.js'

const words = 'the little dog ran to a big red house and saw his happy friend under one tall tree'
const prompts = words.split(' ')

/** A sequence of numbers that looks random and is the same in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = nextNumber(state)
    return Math.floor((state / 2 ** 32) * below)
  }
}

function requests(count: number, below: (limit: number) => number): GenerateRequest[] {
  return Array.from({ length: count }, () => {
    const text = Array.from({ length: 1 + below(20) }, () => prompts[below(prompts.length)])
    return {
      prompt: { text: `Once upon a time ${text.join(' ')}` },
      maxTokens: 4 + below(12),
      sampling: { temperature: 0 },
    }
  })
}

async function start(): Promise<EngineProcess> {
  const { path } = await resolveModel('stories15m')
  return await spawnEngine(
    {
      // One thread: the others of the machine may be busy with other tests.
      backend: { modelPath: path, slots: 8, gpu: 'off', threads: 1 },
      ...quietSettings,
    },
    { env: plainEnvironment(process.env), supervisor: { restartDelaysMs: [0] } },
  )
}

async function complete({ client }: EngineProcess, request: GenerateRequest): Promise<string> {
  let text = ''
  for await (const event of client.submit(request)) if (event.type !== 'start') text += event.text
  return text
}

t.test('an engine in its own process', async (t) => {
  const engine = await start()
  t.teardown(() => engine.kill())

  t.test('requests at once give each what it gives alone', async (t) => {
    const below = numbers(7)
    const all = requests(process.argv.includes('--all') ? 16 : 11, below)
    const alone: string[] = []
    for (const request of all) alone.push(await complete(engine, { ...request, cache: false }))
    t.ok(new Set(alone).size > 8, 'the answers differ')

    // Every batching, and every order.
    const some = policyNames.filter((name) => /^adaptive|fcfs$/.test(name))
    for (const policy of some) {
      await engine.client.setScheduler(policy)
      // A request arrives when one that runs has drawn so many tokens; every third is left midway.
      const arrivals = all.map(() => below(80))
      let drawn = 0
      const waiting = new Map(arrivals.map((at, index) => [index, at]))
      const texts = new Map<number, Promise<string>>()
      const arrive = (): void => {
        const due = [...waiting].filter(([, at]) => at <= drawn)
        const [first] = waiting.keys()
        if (due.length === 0 && first !== undefined) due.push([first, drawn])
        for (const [index] of due) {
          waiting.delete(index)
          texts.set(index, run(index))
        }
      }
      const run = async (index: number): Promise<string> => {
        const request = all[index]!
        const leaveAt = index % 3 === 2 ? below(request.maxTokens ?? 1) : Infinity
        let text = ''
        let count = 0
        for await (const event of engine.client.submit(request)) {
          if (event.type === 'start') continue
          text += event.text
          if (event.type !== 'token') continue
          drawn++
          arrive()
          if (++count > leaveAt) return text
        }
        return text
      }
      while (waiting.size > 0 || texts.size < all.length) {
        arrive()
        await Promise.all(texts.values())
      }
      for (const [index, answer] of texts) {
        const text = await answer
        const expected = alone[index]!
        const left = index % 3 === 2
        t.equal(text, left ? expected.slice(0, text.length) : expected, `${policy}: ${index}`)
      }
      // A client that left frees its slot with the next step at the latest, and here is one.
      await complete(engine, { prompt: { text: 'Once' }, maxTokens: 2 })
      const { slots, running, waiting: queued } = await engine.client.statistics()
      t.same({ running, queued }, { running: 0, queued: 0 }, `${policy}: nothing is left over`)
      t.ok(slots.every((slot) => slot.state === 'idle'))
    }
  })

  t.test('sampled text depends on the seed alone', async (t) => {
    const below = numbers(11)
    const all = requests(8, below).map((request, seed) => {
      return { ...request, sampling: { temperature: 1, topK: 40, topP: 0.9, seed } }
    })
    const alone: string[] = []
    for (const request of all) alone.push(await complete(engine, request))
    const together = await Promise.all(all.map((request) => complete(engine, request)))
    t.same(together, alone)
  })

  t.test('a shared prefix is computed once', async (t) => {
    const text = `Tom had a ${prompts.join(' ')} ${prompts.join(' ')} ${prompts.join(' ')} and`
    const usage = async (): Promise<number> => {
      for await (const event of engine.client.submit({ prompt: { text }, maxTokens: 2 })) {
        if (event.type === 'end') return event.usage.cachedTokens
      }
      return -1
    }
    t.ok((await usage()) < 16)
    t.ok((await usage()) > 40)
  })

  t.test(
    'greedy streams continue unchanged though the engine is killed again and again',
    async (t) => {
      const below = numbers(23)
      const events = async (request: GenerateRequest): Promise<GenerateEvent[]> => {
        const heard: GenerateEvent[] = []
        for await (const event of engine.client.submit(request)) heard.push(event)
        return heard
      }
      const tokens = (heard: readonly GenerateEvent[]) =>
        heard.flatMap((event) => (event.type === 'token' ? [event.token] : []))
      const text = (heard: readonly GenerateEvent[]) =>
        heard.map((event) => (event.type === 'start' ? '' : event.text)).join('')
      /** How much likelier each token was than the next one, at least: a close choice may fall otherwise beside others. */
      const leastGap = (heard: readonly GenerateEvent[]) => {
        const tops = heard.map((event) => (event.type === 'token' ? event.logprobs?.top : []) ?? [])
        const gaps = tops.map(([first, second]) => (first?.logprob ?? 0) - (second?.logprob ?? -99))
        return Math.min(...gaps)
      }
      const all: GenerateRequest[] = []
      const alone: GenerateEvent[][] = []
      for (const some of requests(200, below)) {
        const request = { ...some, maxTokens: 12 + below(12) }
        const heard = await events({ ...request, logprobs: 2 })
        if (leastGap(heard) < 0.05) continue
        alone.push(heard)
        if (all.push(request) === 24) break
      }

      let [drawn, kills, killed] = [0, 0, 0]
      const disturbed = async (request: GenerateRequest): Promise<GenerateEvent[]> => {
        const heard: GenerateEvent[] = []
        for await (const event of engine.client.submit(request)) {
          heard.push(event)
          if (event.type !== 'token' || ++drawn < 80 * (kills + 1) || kills === 3) continue
          // What it had sent before still comes of one that is dead.
          if (engine.pid() === killed) continue
          kills++
          killed = engine.pid()!
          process.kill(killed, 'SIGKILL')
        }
        return heard
      }
      // Once more where all had come before the last kill.
      const isOver = () => kills === 3
      while (!isOver()) {
        for (const [index, heard] of (await Promise.all(all.map(disturbed))).entries()) {
          t.equal(text(heard), text(alone[index]!), `${index} is identical`)
          t.equal(heard.filter(({ type }) => type === 'start').length, 1)
          t.match(heard.at(-1), { type: 'end', usage: { generatedTokens: tokens(heard).length } })
        }
      }
      await until(async () => engine.client.restarts === 3)
      t.equal(engine.client.restarts, 3)
    },
  )

  t.test(
    'its end, when it is not started again, fails what runs, and what comes later',
    async (t) => {
      const request = { prompt: { text: 'Once' }, maxTokens: 200, sampling: { ignoreEos: true } }
      const stream = engine.client.submit(request)
      await stream.next()
      engine.kill()
      const rest = async (): Promise<void> => {
        for await (const event of stream) t.not(event.type, 'end')
      }
      await t.rejects(rest(), { code: 'engine_unavailable' })
      await t.rejects(engine.client.statistics(), { code: 'engine_unavailable' })
      t.match(await engine.ended, /SIGKILL/)
    },
  )
})

t.test('an engine that cannot be started says why', async (t) => {
  // As Node does where no more files can be open; its types leave this out.
  t.intercept(ChildProcess.prototype, 'spawn' as 'kill', {
    value(this: ChildProcess) {
      process.nextTick(() => this.emit('error', new Error('spawn EMFILE')))
    },
  })
  await t.rejects(start(), { message: /could not be started: spawn EMFILE/ })
})

t.test('a hybrid conversation outlives its engine, whose slots cannot be cut', async (t) => {
  const modelPath = join(t.testdir(), 'hybrid.gguf')
  await writeSyntheticModel({ like: 'tiny-hybrid', out: modelPath, seed: 3 })
  const disk = { folder: join(t.testdirName, 'states'), limitBytes: 1e8 }
  const start = () =>
    spawnEngine(
      {
        backend: { modelPath, slots: 2, contextSize: 1536, gpu: 'off', threads: 1 },
        ...quietSettings,
        cache: { ram: 1e8, disk },
      },
      { env: plainEnvironment(process.env), supervisor: { restartDelaysMs: [0] } },
    )
  const below = numbers(31)
  const someWords = (count: number): string =>
    Array.from({ length: count }, () => prompts[below(prompts.length)]).join(' ')
  const draw = async (
    { client }: EngineProcess,
    prompt: readonly number[],
    { pin = false, onToken = () => {} }: { pin?: boolean; onToken?: (count: number) => void } = {},
  ) => {
    const sampling = { temperature: 0, ignoreEos: true }
    const tokens: number[] = []
    let [cached, leastGap] = [-1, Infinity]
    const request = { prompt: { tokens: prompt }, maxTokens: 16, sampling, logprobs: 2, pin }
    for await (const event of client.submit(request)) {
      if (event.type === 'end') cached = event.usage.cachedTokens
      if (event.type !== 'token') continue
      const [first, second] = event.logprobs?.top ?? []
      leastGap = Math.min(leastGap, (first?.logprob ?? 0) - (second?.logprob ?? -Infinity))
      onToken(tokens.push(event.token))
    }
    return { tokens, cached, leastGap }
  }
  /**
   * A prompt behind these tokens, and an answer in which no token is nearly as likely as another: tokens
   * that are computed one by one, and at once, round differently.
   */
  const clearAnswer = async (engine: EngineProcess, before: readonly number[]) => {
    for (let token = 300; token < 400; token++) {
      const prompt = [...before, token]
      const { tokens, leastGap } = await draw(engine, prompt)
      if (leastGap > 0.2) return { prompt, tokens }
    }
    throw new Error('no answer is clear')
  }
  /** Until what a slot held is in a file, which is pinned: whether it would be worth it is measured. */
  const filed = async ({ client }: EngineProcess, length: number): Promise<void> => {
    await until(async () =>
      (await client.cache('list')).some(
        ({ tier, checkpoint, tokens }) => tier === 'disk' && !checkpoint && tokens >= length,
      ),
    )
  }

  const first = await start()
  t.teardown(() => first.kill())
  const opening = await first.client.tokenize(someWords(700))
  const said = [...opening, ...(await draw(first, opening, { pin: true })).tokens]
  await filed(first, opening.length)
  const turn = await clearAnswer(first, said)
  first.kill()
  await first.ended

  const second = await start()
  t.teardown(() => second.kill())
  const later = await draw(second, turn.prompt, { pin: true })
  t.same(later.tokens, turn.tokens, 'the follow-up says what it says without a restart')
  const computed = turn.prompt.length - later.cached
  t.ok(computed <= 0.15 * turn.prompt.length, `${computed} of ${turn.prompt.length} were computed`)

  // Its conversation is in a file when its engine dies in the middle of its next answer.
  const more = [...turn.prompt, ...turn.tokens]
  await filed(second, more.length - 1)
  const last = await clearAnswer(second, more)
  const hits = async () => (await second.client.statistics()).cache!.disk!.hits
  const before = await hits()
  const onToken = (count: number): void => {
    if (count === 2) process.kill(second.pid()!, 'SIGKILL')
  }
  const killed = await draw(second, last.prompt, { onToken })
  t.equal(second.client.restarts, 1)
  t.same(killed.tokens, last.tokens, 'the stream goes on exactly')
  t.equal(await hits(), before + 1, 'from the file of what it said before')
  second.kill()
  await second.ended
})

t.test('a start that is cancelled, before it or during it, leaves no process', async (t) => {
  const { path: modelPath } = await resolveModel('stories15m')
  const settings = { backend: { modelPath, slots: 1, gpu: 'off', threads: 1 }, ...quietSettings }
  const env = plainEnvironment(process.env)
  const left = () =>
    process.getActiveResourcesInfo().filter((resource) => resource === 'ProcessWrap')
  // Node closes the handle of a process that has ended some turns later.
  const allGone = async () => {
    while (left().length > 0) await new Promise(setImmediate)
  }
  await allGone()
  const stopped = AbortSignal.abort(new Error('stopped'))
  await t.rejects(spawnEngine(settings, { env, signal: stopped }), {
    code: 'cancelled',
    cause: { message: 'stopped' },
  })
  t.same(left(), [])
  const stopping = new AbortController()
  const starting = spawnEngine(settings, { env, signal: stopping.signal })
  t.equal(left().length, 1)
  stopping.abort()
  await t.rejects(starting, { code: 'cancelled' })
  await allGone()
})

t.test('a draft model computes in the same process and changes no answer', async (t) => {
  const { path: modelPath } = await resolveModel('stories15m')
  const backend = { modelPath, slots: 2, gpu: 'off', threads: 1, contextSize: 200 }
  const draft = { ...backend, modelId: 'draft', poll: 0 }
  const options = { speculative: 'draft' }
  const env = plainEnvironment(process.env)
  const [plain, drafting] = await Promise.all([
    spawnEngine({ ...quietSettings, backend }, { env }),
    spawnEngine({ ...quietSettings, options, backend, draft }, { env }),
  ])
  t.teardown(() => [plain, drafting].forEach((engine) => engine.kill()))
  t.match(drafting.info.draftModel, { id: 'draft', architecture: 'llama' })
  const [one, other] = [asLoaded(plain).memoryBytes!, asLoaded(drafting).memoryBytes!]
  t.ok(one > 0 && other > 1.5 * one, 'its memory is counted')
  for (const sampling of [{ temperature: 0 }, { temperature: 1, seed: 3 }]) {
    const prompt = { text: 'Once upon a time there was' }
    const request = { prompt, maxTokens: 100, sampling: { ...sampling, ignoreEos: true } }
    t.equal(await complete(drafting, request), await complete(plain, request))
  }
  const { speculation } = await drafting.client.statistics()
  const { draftTokens = 0, acceptedTokens = 0 } = speculation ?? {}
  t.ok(draftTokens > 0 && acceptedTokens > 0.8 * draftTokens, `${acceptedTokens}/${draftTokens}`)
})

t.test('a backend of a plug-in has the usual thread pool', async (t) => {
  const backend = `{ name: 'pool', doc: 'Tells its thread pool.', create() {
    throw new Error('size: ' + process.env.UV_THREADPOOL_SIZE)
  } }`
  const plugin = `{ name: 'pool', apiVersion: 1, register: (host) => host.registerBackend(${backend}) }`
  const pluginsFolder = t.testdir({ 'pool.mjs': `export default ${plugin}` })
  const plugins = [{ use: './pool.mjs' }]
  const settings = { ...quietSettings, backendName: 'pool', backend: {}, plugins, pluginsFolder }
  const env = plainEnvironment(process.env)
  await t.rejects(spawnEngine(settings, { env }), { message: /size: undefined/ })
  const own = { ...env, UV_THREADPOOL_SIZE: '7' }
  await t.rejects(spawnEngine(settings, { env: own }), { message: /size: 7/ })
})

t.test('an engine that cannot start says why', async (t) => {
  const settings = {
    backend: { modelPath: 'no-such-model.gguf' },
    ...quietSettings,
  } as const
  const failure = await spawnEngine(settings, { env: plainEnvironment(process.env) }).catch(
    (error: unknown) => error,
  )
  t.ok(CllmError.isInstance(failure))
  t.match(failure, { message: /no-such-model\.gguf/ })
  const wrong = { ...settings, policy: 'fastest' }
  await t.rejects(spawnEngine(wrong, { env: plainEnvironment(process.env) }), {
    code: 'invalid_policy',
  })
})

t.test('many children are killed by one listener', (t) => {
  const before = process.listenerCount('exit')
  const ended = Array.from({ length: 12 }, () => killAtExit(() => t.fail('killed')))
  t.ok(process.listenerCount('exit') <= before + 1, 'more than ten would be warned of')
  for (const one of ended) one()
  t.ok(process.listenerCount('exit') <= before)
  t.end()
})
