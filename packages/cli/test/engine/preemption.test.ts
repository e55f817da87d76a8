import {
  createEngine,
  nextNumber,
  type Plan,
  PluginRegistry,
  type SchedulerPolicy,
  type SchedulerState,
  silentLogger,
  systemClock,
  systemRandom,
  type TokenId,
  WAIT_PREDICTOR,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { createLlamaCppBackend } from '@cllm/backend-llamacpp'
import { createPolicy } from '@cllm/scheduler'
import t from 'tap'
import { resolveModel } from '../../src/models/resolve-model.js'

const { path: modelPath } = await resolveModel('stories15m')

/** First come, first served; with `chance`, it takes slots away and pauses at random. */
function disturbing(seed: number, chance: number): SchedulerPolicy {
  let number = seed
  const next = (): number => {
    number = nextNumber(number)
    return number / 2 ** 32
  }
  return {
    name: 'disturbing',
    plan(state: SchedulerState): Plan {
      const preempt = state.running.filter(() => next() < chance).map(({ id }) => id)
      const running = state.running.filter(({ id }) => !preempt.includes(id) && next() >= chance)
      let left = state.limits.batchSize
      const run: { id: string; tokens: number }[] = []
      const admit = Array.from(state.waiting).slice(0, state.freeSlots)
      for (const { id, remainingTokens } of [...running, ...admit]) {
        const tokens = Math.min(
          left,
          remainingTokens,
          chance > 0 ? 1 + Math.floor(next() * 40) : left,
        )
        if (tokens < 1) break
        left -= tokens
        run.push({ id, tokens })
      }
      return { admit: admit.map(({ id }) => id), preempt, reject: [], run, wakeAt: state.now + 1 }
    },
  }
}

const prompts = [
  'Once upon a time there was a little cat',
  'Once upon a time there was a little dog who liked to run in the park with his friend Tim',
  'The sun was hot and Lily wanted to swim',
  'One day, a big red truck came to the town. The driver was a man who had a long white beard.',
  'Tom found a key',
]

t.test('a preempted story goes on as it would have', async (t) => {
  const tell = async (chance: number, seed: number) => {
    const backend = await createLlamaCppBackend(
      { modelPath, slots: 3, contextSize: 128, batchSize: 64, threads: 1, gpu: 'off' },
      { clock: systemClock, logger: silentLogger },
    )
    const engine = createEngine({ backend, policy: disturbing(seed, chance) })
    const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
    const tellOne = async (text: string, index: number): Promise<string> => {
      const sampling = {
        temperature: index % 2,
        seed: 7 + index,
        ignoreEos: true,
        ...(index > 2 ? { frequencyPenalty: 0.5, repetitionPenalty: 1.1 } : {}),
      }
      const stop = index === 2 ? [' happy'] : []
      // the last one runs into the end of the context
      const maxTokens = index === 3 ? 1000 : 60
      const request = { prompt: { text }, maxTokens, sampling, stop }
      let story = ''
      for await (const event of client.submit(request)) {
        if (event.type !== 'start') story += event.text
        if (event.type === 'end') story += ` (${event.reason}, ${event.usage.generatedTokens})`
      }
      return story
    }
    const stories = await Promise.all(prompts.map(tellOne))
    const { preemptions } = engine.statistics()
    await engine.close()
    await backend.dispose()
    return { stories, preemptions }
  }
  const undisturbed = await tell(0, 0)
  t.equal(undisturbed.preemptions, 0)
  t.match(undisturbed.stories[3], /\(length, \d+\)$/)
  for (const seed of [1, 2]) {
    const { stories, preemptions } = await tell(0.06, seed)
    t.ok(preemptions > 5, `${preemptions} preemptions`)
    t.same(stories, undisturbed.stories, `seed ${seed}`)
  }
})

t.test('a long story goes on as it would have, preempted or at another engine', async (t) => {
  const tell = async (seed: number, preemptsAt: number, continued: readonly TokenId[] = []) => {
    const backend = await createLlamaCppBackend(
      { modelPath, slots: 2, contextSize: 512, threads: 1, gpu: 'off', rope: { freqScale: 0.5 } },
      { clock: systemClock, logger: silentLogger },
    )
    const inner = createPolicy('chunked+fcfs')
    let isPreempted = false
    const policy: SchedulerPolicy = {
      name: 'once',
      plan(state) {
        const [one] = state.running
        if (isPreempted || one === undefined || one.generatedTokens < preemptsAt) {
          return inner.plan(state)
        }
        isPreempted = true
        return { admit: [], preempt: [one.id], reject: [], run: [], wakeAt: state.now + 1 }
      },
    }
    const engine = createEngine({ backend, policy })
    const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
    const tokens = [...continued]
    const request = {
      prompt: { text: prompts[0]! },
      maxTokens: 420,
      sampling: { temperature: 1, seed, ignoreEos: true },
      cache: false,
      continued: { tokens: continued, elapsedMs: 1 },
    }
    for await (const event of client.submit(request)) {
      if (event.type === 'token') tokens.push(event.token)
    }
    await engine.close()
    await backend.dispose()
    t.equal(isPreempted, preemptsAt < Infinity)
    return tokens
  }
  for (const seed of [3, 8]) {
    const whole = await tell(seed, Infinity)
    t.equal(whole.length, 420)
    t.same(await tell(seed, 380), whole, `seed ${seed}, preempted`)
    t.same(
      await tell(seed, Infinity, whole.slice(0, 380)),
      whole,
      `seed ${seed}, at another engine`,
    )
  }
})

t.test('stories that outgrow one pool of cells give way and go on', async (t) => {
  const tell = async (kvTokens: number, use: Record<string, string>) => {
    const backend = await createLlamaCppBackend(
      { modelPath, slots: 5, contextSize: 256, kvTokens, threads: 1, gpu: 'off' },
      { clock: systemClock, logger: silentLogger },
    )
    const registry = new PluginRegistry()
    // Expects no answers, so that they outgrow the pool.
    registry.provide(WAIT_PREDICTOR, 'hopeful', ({ original }) =>
      Object.assign(original(), { answerTokens: () => 0 }),
    )
    const policy = createPolicy('chunked+priority')
    const engine = createEngine({ backend, policy, registry, use })
    const client = new LocalEngineClient(engine, registry, systemRandom)
    const tellOne = async (text: string, priority: number): Promise<number> => {
      let tokens = 0
      const sampling = { temperature: 0, ignoreEos: true }
      const request = { prompt: { text }, maxTokens: 120, priority, sampling, cache: false }
      for await (const event of client.submit(request)) {
        if (event.type === 'end') tokens = event.usage.generatedTokens
      }
      return tokens
    }
    const lengths = await Promise.all(prompts.map(tellOne))
    const { preemptions, requests } = engine.statistics()
    await engine.close()
    await backend.dispose()
    return { lengths, preemptions, done: requests.done }
  }
  // What they say is not compared: a pass adds up the cells of a pool in the order in which they lie.
  const full = await tell(256, { 'wait-predictor': 'hopeful' })
  t.ok(full.preemptions > 0, `${full.preemptions} preemptions`)
  for (const { lengths, done } of [full, await tell(256, {})]) {
    t.same(lengths, [120, 120, 120, 120, 120])
    t.equal(done, prompts.length)
  }
})
