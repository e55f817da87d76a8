import {
  type AddressedEvent,
  type BatchItem,
  createEngine,
  type GenerateRequest,
  type SamplingParams,
  type StepResult,
  type TokenId,
} from '@cllm/core'
import { FakeTokenizer, fakeTokenIds, runUntilIdle, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'
import {
  collect,
  expectedTokens,
  greedy,
  isDone,
  policyOf,
  promptOf,
  rig,
  WatchedBackend,
} from '../../rig.js'

t.test('one request can never fail another', async (t) => {
  t.test('a step fails', async (t) => {
    const told: number[] = []
    let fails = 0
    const policy = policyOf(
      (state) => firstComeFirstServed.plan(state),
      (event) => {
        if (event.type === 'step') told.push(event.durationMs)
      },
    )
    const made = rig({
      policy,
      failWhen: (batch) => {
        const culprit = batch.some(({ tokens }) => tokens.includes(fakeTokenIds.messageStart))
        const once = batch.length === 3 && fails++ === 1
        return culprit ? new Error('bad token') : once ? new Error('a bad day') : undefined
      },
    })
    const { client, run, backend, engine } = made
    const prompts = [promptOf(9), promptOf(9, 1), promptOf(9, 2)]
    const bad = [...promptOf(5, 3), fakeTokenIds.messageStart]
    const [culprit, ...others] = await run(
      Promise.all([bad, ...prompts].map((prompt) => collect(client.submit(greedy(prompt, 5))))),
    )
    t.match(culprit?.error, { code: 'backend_failed', status: 500, message: /bad token/ })
    for (const [index, { tokens }] of others.entries()) {
      t.same(tokens, expectedTokens(backend, prompts[index] ?? [], 5))
    }
    t.ok(fails > 1, 'and once it failed for no reason, which nobody noticed')
    t.same([...new Set(told)], [10], 'steps that were tried twice teach nothing')
    t.match(engine.statistics(), { requests: { done: 3, failed: 1 }, generatedTokens: 15 })
    await isDone(t, made)
  })

  t.test('a backend makes wrong outputs', async (t) => {
    const [mine, others] = [promptOf(9), promptOf(9, 1)]
    const wrong: [string, RegExp, (result: StepResult, mine: number) => unknown][] = [
      ['nothing', /outputs \}, a list for each item, instead got undefined/, () => undefined],
      ['no outputs', /instead got undefined/, () => ({ decodeMs: 1, sampleMs: 1 })],
      ['none', /expected 1 outputs for an item that wants 1, instead got 0/, withOutputs([])],
      [
        'two',
        /instead got 2/,
        withOutputs([
          { position: 9, token: 5 },
          { position: 10, token: 5 },
        ]),
      ],
      ['no token', /a token from 0 to \d+ for position 8, instead got \{\}/, withOutputs([{}])],
      [
        'a token of no vocabulary',
        /instead got \{ token: 99999 \}/,
        withOutputs([{ token: 99_999 }]),
      ],
    ]
    for (const [what, message, change] of wrong) {
      class Wrong extends WatchedBackend {
        override async step(batch: readonly BatchItem[]): Promise<StepResult> {
          const result = await super.step(batch)
          const culprit = batch.findIndex(({ tokens }) => tokens[0] === mine[0])
          return culprit === -1 ? result : (change(result, culprit) as StepResult)
        }
      }
      const made = rig({
        backend: (given) => new Wrong(given),
        fallbackPolicy: () => firstComeFirstServed,
      })
      const { client, run, engine, backend } = made
      const [one, other] = await run(
        Promise.all([mine, others].map((prompt) => collect(client.submit(greedy(prompt, 3))))),
      )
      const error = { code: 'backend_failed', message }
      t.match(one?.error, error, what)
      if (what === 'nothing' || what === 'no outputs') t.match(other, { error })
      else t.same(other?.tokens, expectedTokens(backend, others, 3))
      t.equal(engine.statistics().policyFaults, 0)
      const after = await run(collect(client.submit(greedy(promptOf(9, 2), 3))))
      t.same(after.tokens, expectedTokens(backend, promptOf(9, 2), 3), 'the next one is well')
      await isDone(t, made)
    }
  })

  t.test('samplers, copies and slots fail', async (t) => {
    class Moody extends WatchedBackend {
      mood?: 'no copies' | 'no truncation' | 'nowhere' | 'taken'

      override createSampler(params: SamplingParams, tokens: readonly TokenId[]) {
        if (params.seed === 13) throw new RangeError('unlucky')
        return super.createSampler(params, tokens)
      }

      override async copyPrefix(from: number, to: number, length: number): Promise<number> {
        const copied = await super.copyPrefix(from, to, length)
        if (this.mood === 'no copies') throw new Error('copy failed half-way')
        return copied
      }

      override truncate(slot: number, length: number): number {
        if (this.mood === 'no truncation') throw new Error('not this slot')
        return super.truncate(slot, length)
      }

      override preferSlot(free: readonly number[], used: readonly number[]): number {
        if (this.mood === 'nowhere') return 99
        return this.mood === 'taken' ? (used[0] ?? -1) : super.preferSlot(free, used)
      }
    }
    const backend: { current?: Moody } = {}
    const made = rig({ slots: 3, backend: (given) => (backend.current = new Moody(given)) })
    const { client, run, ask, clock } = made
    const long = promptOf(100)
    const steady = collect(client.submit(greedy(long, 60)))
    const unlucky = greedy(promptOf(9, 1), 5)
    const answer = await ask({ ...unlucky, sampling: { ...unlucky.sampling, seed: 13 } })
    t.match(answer, {
      events: { length: 1 },
      error: { code: 'backend_failed', message: 'unlucky' },
    })
    const moods = [
      ['nowhere', promptOf(9, 2), /99/],
      ['taken', promptOf(9, 2), /instead got 0/],
    ] as const
    for (const [mood, prompt, message] of moods) {
      if (backend.current !== undefined) backend.current.mood = mood
      t.match((await ask(greedy(prompt, 5))).error, { code: 'backend_failed', message }, mood)
      if (backend.current !== undefined) delete backend.current.mood
      const after = await ask(greedy(promptOf(30, 5), 3))
      t.same(after.tokens, expectedTokens(made.backend, promptOf(30, 5), 3), 'the next one is well')
    }
    if (backend.current !== undefined) backend.current.mood = 'no copies'
    const copied = await ask(greedy([...long, 9], 5))
    t.same(copied.tokens, expectedTokens(made.backend, [...long, 9], 5), 'then it is computed')
    t.equal(copied.end?.usage.cachedTokens, 0)
    if (backend.current !== undefined) backend.current.mood = 'no truncation'
    t.match((await ask(greedy(promptOf(25, 5), 3))).error, { message: 'not this slot' })
    if (backend.current !== undefined) delete backend.current.mood
    t.equal((await ask(greedy(promptOf(30, 5), 3))).error, undefined)
    t.same((await run(steady)).tokens, expectedTokens(made.backend, long, 60))
    await runUntilIdle(clock)
    await isDone(t, made)
  })

  t.test('text cannot be made', async (t) => {
    const made = rig({ slots: 2 })
    class Choking extends FakeTokenizer {
      override createDecoder(before: readonly TokenId[] = []) {
        const decoder = super.createDecoder(before)
        let pushed = 0
        const push = (token: TokenId) => {
          if (before[0] === 13 && ++pushed === Math.min(3, before.length)) {
            throw new Error('cannot say that')
          }
          return decoder.push(token)
        }
        return { push, end: () => decoder.end() }
      }
    }
    const { clock, backend } = made
    const tokenizer = new Choking()
    const engine = createEngine({ backend, tokenizer, policy: firstComeFirstServed, clock })
    const events: AddressedEvent[] = []
    const finished: Record<string, string> = {}
    engine.observe({
      onEvents: (batch) => void events.push(...batch),
      onFinished: ({ id, state }) => void (finished[id] = state),
    })
    engine.submit('well', greedy([5], 9))
    engine.submit('midst', greedy([13, 13, 13], 9))
    await runUntilIdle(clock)
    engine.submit('last', greedy([13, 13], 2))
    await runUntilIdle(clock)
    const of = (name: string) => events.filter(({ id }) => id === name).map(({ event }) => event)
    t.equal(of('well').at(-1)?.type, 'end')
    const error = { code: 'internal', message: 'cannot say that' }
    t.match(of('midst').slice(1), [{ type: 'token' }, { type: 'token' }, { type: 'error', error }])
    t.match(of('last').slice(1), [{ type: 'token' }, { type: 'error', error }])
    t.match(engine.statistics().requests, { done: 1, failed: 2 })
    t.match(finished, { well: 'done', midst: 'failed' }, 'its length teaches nothing')
    await isDone(t, { ...made, engine })
  })
})

t.test('an answer is computed again in chunks as short as the backend asks for', async (t) => {
  const of = async (
    replayTokens: number | undefined,
    more: Partial<GenerateRequest>,
    preemptsAt = Infinity,
  ) => {
    let isPreempted = false
    const policy = policyOf((state) => {
      const [one] = state.running
      if (isPreempted || one === undefined || one.generatedTokens < preemptsAt) {
        return firstComeFirstServed.plan(state)
      }
      isPreempted = true
      return { admit: [], preempt: [one.id], reject: [], run: [], wakeAt: state.now + 1 }
    })
    const made = rig()
    const { clock, backend } = made
    Object.assign(backend, { limits: { ...backend.limits, ...(replayTokens && { replayTokens }) } })
    const engine = createEngine({ backend, policy, clock })
    const events: AddressedEvent[] = []
    engine.observe({ onEvents: (batch) => void events.push(...batch) })
    const prompt = promptOf(20)
    const expected = expectedTokens(backend, prompt, 12)
    const tokens = more.continued === undefined ? [] : expected.slice(0, 10)
    const continued = { tokens, elapsedMs: 5 }
    engine.submit('long', { ...greedy(prompt, 12), ...more, continued })
    await runUntilIdle(clock)
    const drawn = events.flatMap(({ event }) => (event.type === 'token' ? [event.token] : []))
    t.same(drawn, expected.slice(tokens.length))
    t.equal(isPreempted, preemptsAt < Infinity)
    await isDone(t, { ...made, engine })
    return backend.steps
      .flatMap(({ batch }) => batch)
      .map(({ tokens, isReplay = false }) => (isReplay ? `${tokens.length} again` : tokens.length))
  }
  const elsewhere = { continued: { tokens: [], elapsedMs: 5 } }
  t.same(await of(4, elsewhere), [20, '4 again', '4 again', '2 again', 1])
  t.same(await of(undefined, elsewhere), [30, 1], 'in one pass where nothing is the same anyway')
  const decodes = Array.from({ length: 9 }, () => 1)
  const scored = { cache: false, promptLogprobs: 1 }
  t.same(
    await of(4, scored, 10),
    [20, ...decodes, 20, '4 again', '4 again', '2 again', 1],
    'apart from a prompt that is scored',
  )
})

/** Puts these in the place of one item's outputs. */
const withOutputs =
  (outputs: readonly object[]) =>
  (result: StepResult, index: number): object => ({
    ...result,
    outputs: result.outputs.with(index, outputs as never),
  })
