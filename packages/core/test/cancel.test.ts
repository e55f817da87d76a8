import { setImmediate } from 'node:timers/promises'
import { CllmError, type Plan, type SchedulerState, type TokenId } from '@cllm/core'
import { runUntilIdle, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'
import { greedy, leftovers, nothingLeft, PartsBackend, policyOf, promptOf, rig } from './rig.js'

class SlowBackend extends PartsBackend {
  embedded: number[] = []

  override async embed(inputs: readonly (readonly TokenId[])[]): Promise<number[][]> {
    this.embedded.push(...inputs.map(({ length }) => length))
    return await super.embed(inputs)
  }
}

const phases = [
  'queued',
  'tokenizing',
  'prefilling',
  'decoding',
  'paused',
  'preempted',
  'embedding',
] as const
/** As often as all places of a phase, 13 or 20, come twice; with `--all` more often. */
const times = process.argv.includes('--all') ? 200 : 40
/** Milliseconds after which a request is in this phase for sure; a step takes 10. */
const soonest = { queued: 3, prefilling: 11, decoding: 25, paused: 45, preempted: 45 }

/** A plan that lets who may leave wait behind a first token, in its slot or without one. */
function without(plan: Plan, state: SchedulerState, phase: 'paused' | 'preempted'): Plan {
  const [waiting, running] = [state.waiting, state.running].map((views) =>
    [...views].filter((view) => view.id.startsWith('leaver') && view.generatedTokens > 0),
  )
  const held = new Set([...waiting!, ...running!].map(({ id }) => id))
  const admit = plan.admit.filter((id) => !held.has(id))
  const run = plan.run.filter(({ id }) => !held.has(id))
  const preempt = phase === 'preempted' ? running!.map(({ id }) => id) : []
  return { ...plan, admit, run, preempt }
}

/** Clients that leave at any time of a phase, beside one that stays, in each of seven phases. */
for (const phase of phases) {
  t.test(`${phase}: who leaves is gone with the step under way, ${times} times`, async (t) => {
    const plans: SchedulerState[] = []
    const policy = policyOf((state) => {
      plans.push({ ...state, running: [...state.running], waiting: [...state.waiting] as never })
      const plan = firstComeFirstServed.plan(state)
      return phase === 'paused' || phase === 'preempted' ? without(plan, state, phase) : plan
    })
    const made = rig({
      slots: 2,
      batchSize: 16,
      contextSize: 65_536,
      embeddingSize: 4,
      policy,
      backend: (given) => new SlowBackend(given),
    })
    const backend = made.backend as SlowBackend
    const { clock, client, engine } = made
    const swallow = (): void => {}
    const drain = async (stream: AsyncIterable<unknown>): Promise<void> => {
      for await (const event of stream) void event
    }
    const stays = new AbortController()
    const families = phase === 'queued' ? [1, 2] : [1]
    const beside = families.map((family) =>
      drain(client.submit(greedy(promptOf(4, family), 60_000), stays)).catch(swallow),
    )
    await runUntilIdle(clock, clock.now() + 40)

    let gone = 0
    for (let index = 0; index < times; index++) {
      const controller = new AbortController()
      const { signal } = controller
      const id = `leaver-${index}`
      const before = { embedded: backend.embedded.length, parts: backend.tokenizer.parts }
      if (phase === 'embedding') {
        // The first is being computed when the second one is left.
        const first = client.embed({ tokens: promptOf(2) })
        const second = client.embed({ tokens: promptOf(3) }, { signal })
        controller.abort()
        const error: unknown = await second.catch((reason: unknown) => reason)
        await runUntilIdle(clock, clock.now() + 30)
        await first
        const isCancelled = CllmError.isInstance(error) && error.code === 'cancelled'
        if (isCancelled && backend.embedded.length === before.embedded + 1) gone++
        continue
      }
      const text = 'x'.repeat(phase === 'tokenizing' ? 60_000 : 10)
      const prompt = phase === 'prefilling' ? { tokens: promptOf(60, index) } : { text }
      const sampling = { temperature: 0, ignoreEos: true }
      const request = { id, prompt, maxTokens: 100, sampling, cache: false }
      const over = drain(client.submit(request, { signal })).catch(swallow)
      if (phase === 'tokenizing')
        for (let turn = 0; turn < 1 + (index % 20); turn++) await setImmediate()
      else await runUntilIdle(clock, clock.now() + soonest[phase] + (index % 13))
      const { slots } = engine.statistics()
      const own = slots.find(({ request }) => request === id)
      const isWaiting = phase === 'queued' || phase === 'tokenizing' || phase === 'preempted'
      const held = phase === 'preempted' ? [...plans.at(-1)!.waiting] : plans.at(-1)!.running
      const isHeld =
        (phase !== 'paused' && phase !== 'preempted') || held.some((view) => view.id === id)
      const isThere =
        isHeld && (isWaiting ? !own : own?.state === (phase === 'paused' ? 'decoding' : phase))
      const steps = backend.steps.length
      const plan = plans.length
      controller.abort()
      await over
      await runUntilIdle(clock, clock.now() + 10)
      await runUntilIdle(clock, clock.now() + 10)
      const isGone = plans
        .slice(plan)
        .every(({ running, waiting }) => [...running, ...waiting].every((view) => view.id !== id))
      const parts = backend.tokenizer.parts - before.parts
      if (isThere && isGone && backend.steps.length > steps && parts < 60) gone++
    }
    t.equal(gone, times)
    stays.abort()
    await Promise.all(beside)
    await runUntilIdle(clock)
    t.same(leftovers(made), nothingLeft)
  })
}
