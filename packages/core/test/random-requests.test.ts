import {
  type AddressedEvent,
  createEngine,
  PluginRegistry,
  defaultSampling,
  nextNumber,
  type GenerateEvent,
  type GenerateRequest,
  type Plan,
  type RequestEvent,
  type SamplingParams,
  type SchedulerEvent,
  type SchedulerPolicy,
  type SchedulerState,
  type SequenceView,
  SimulatedClock,
  type TokenId,
  WAIT_PREDICTOR,
} from '@cllm/core'
import { FakeBackend, fakeTokenIds, runUntilIdle } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import { counting, leftovers, nothingLeft, promptOf, summarize } from './rig.js'

/** A prompt with this token cannot be computed; no answer has it. */
const poison = fakeTokenIds.messageStart
const unsampled = 13

interface Trial {
  readonly prompt: readonly TokenId[]
  readonly request: GenerateRequest
  readonly sampling: SamplingParams
  readonly maxTokens: number
  readonly arrival: number
  readonly cancelAfter: number | undefined
}

/** The ids of this image's vectors. */
const imageIds = async (data: string): Promise<readonly TokenId[]> => {
  const image = await new FakeBackend({ images: true }).media!.prepare({ type: 'image', data }, '')
  return 'run' in image ? (await image.run(new AbortController().signal)).tokens : []
}
const images = await Promise.all(
  ['a cat', 'dog'].map(async (name) => ({ data: btoa(name), ids: await imageIds(btoa(name)) })),
)

const trialArbitrary: fc.Arbitrary<Trial> = fc
  .record({
    image: fc.option(fc.constantFrom(...images), { freq: 3, nil: undefined }),
    family: fc.nat(2),
    shared: fc.constantFrom(0, 4, 30, 80, 120, 150),
    own: fc.array(fc.integer({ min: 4, max: 299 }), { minLength: 1, maxLength: 40 }),
    poisoned: fc.oneof({ weight: 30, arbitrary: fc.constant(false) }, fc.constant(true)),
    maxTokens: fc.integer({ min: 1, max: 40 }),
    temperature: fc.constantFrom(0, 0.8, 1.5),
    seed: fc.oneof({ weight: 25, arbitrary: fc.nat(1000) }, fc.constant(unsampled)),
    frequencyPenalty: fc.constantFrom(0, 0, 1),
    ignoreEos: fc.boolean(),
    stop: fc.array(fc.constantFrom(' the', 'at', ' s', 'e ', 'y t', ' dog sun'), { maxLength: 2 }),
    cache: fc.constantFrom(true, true, true, false),
    stepGroup: fc.constantFrom(undefined, undefined, 'a'),
    timeoutMs: fc.option(fc.nat(3000), { freq: 8, nil: undefined }),
    arrival: fc.nat(250),
    cancelAfter: fc.option(fc.nat(1500), { freq: 6, nil: undefined }),
  })
  .map((given) => {
    const { maxTokens, stop, cache, arrival, cancelAfter, stepGroup, timeoutMs } = given
    const { temperature, seed, frequencyPenalty, ignoreEos } = given
    const sampling = { ...defaultSampling, temperature, seed, frequencyPenalty, ignoreEos }
    const before = promptOf(given.shared, given.family)
    const behind = given.poisoned ? [...given.own, poison] : given.own
    const { ids = [], data = '' } = given.image ?? {}
    const media = [{ type: 'image' as const, data, at: before.length }]
    const tokens = [...before, ...ids, ...behind]
    const request: GenerateRequest = {
      prompt: { tokens: [...before, ...behind], ...(given.image && { media }) },
      maxTokens,
      sampling,
      stop,
      cache,
      ...(stepGroup === undefined ? {} : { stepGroup }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    }
    return { prompt: tokens, request, sampling, maxTokens, arrival, cancelAfter }
  })

const machineArbitrary = fc.record({
  slots: fc.integer({ min: 1, max: 4 }),
  contextSize: fc.constantFrom(200, 256),
  /** Tokens that all slots hold beyond those of one; below 0 each has cells of its own. */
  shared: fc.constantFrom(-1, -1, 0, 20, 60, 200),
  batchSize: fc.constantFrom(8, 64, 128, 256),
  keepMultipleOf: fc.constantFrom(1, 1, 8),
  speculative: fc.constantFrom('off', 'tested', 'tested'),
  cacheRamBytes: fc.constantFrom(0, 2000, 1e6, 1e6),
  endProbability: fc.constantFrom(0, 0.05),
  seed: fc.nat(),
  encodeMs: fc.constantFrom(5, 100, 1000),
})

/** Requests that share most of their prompts, one soon after the other: slots are copied for them. */
const alike: Trial[] = Array.from({ length: 10 }, (_, index) => {
  const prompt = [...promptOf(150), 10 + index]
  const sampling = { ...defaultSampling, seed: 1 }
  const request = { prompt: { tokens: prompt }, maxTokens: 20, sampling, cache: true }
  return { prompt, request, sampling, maxTokens: 20, arrival: 10 * index, cancelAfter: undefined }
})
/** Requests that fit into a pool together, until their answers have grown. */
const crowd: Trial[] = Array.from({ length: 8 }, (_, index) => {
  const prompt = [...promptOf(4, index % 3), 10 + index, ...promptOf(60, index)]
  const sampling = { ...defaultSampling, seed: index, ignoreEos: true }
  const request = { prompt: { tokens: prompt }, maxTokens: 40, sampling, cache: true }
  return { prompt, request, sampling, maxTokens: 40, arrival: index, cancelAfter: undefined }
})
const roomy = {
  slots: 4,
  contextSize: 256,
  shared: -1,
  batchSize: 256,
  keepMultipleOf: 1,
  endProbability: 0,
  speculative: 'off',
  cacheRamBytes: 1e6,
  encodeMs: 50,
}

/** Time goes with tokens, so that the engine learns that a copy is cheaper than computing. */
const stepMsOf = (tokens: number): number => 10 + 2 * tokens

function randomNumbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = nextNumber(state)
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** Makes any plan that is allowed, and checks what it is told. */
class RandomPolicy implements SchedulerPolicy {
  readonly name = 'random plans'
  readonly wrong: string[] = []
  victims = 0
  readonly #seen = new Map<string, SequenceView['state']>()

  constructor(private readonly next: (below: number) => number) {}

  plan(state: SchedulerState): Plan {
    this.#compare(state)
    const { next } = this
    const running = [...state.running]
    const waiting = [...state.waiting]
    const groups = [...running, ...waiting].map((view) => view.stepGroup)
    const group = groups[next(groups.length)]
    const preempt = running.filter(() => next(20) === 0).map((view) => view.id)
    const stays = running.filter((view) => !preempt.includes(view.id))
    const reject = waiting
      .filter(() => next(200) === 0)
      .map((view) => ({ id: view.id, reason: 'bad luck' }))
    const open = waiting.filter((view) => reject.every((entry) => entry.id !== view.id))
    const admitted: SequenceView[] = []
    const slots = state.freeSlots + preempt.length
    while (admitted.length < slots && open.length > 0 && next(5) > 0) {
      admitted.push(...open.splice(next(open.length), 1))
    }
    const run: Plan['run'][number][] = []
    let left = state.limits.batchSize
    const candidates = [...stays, ...admitted].filter((view) => view.stepGroup === group)
    while (candidates.length > 0 && left > 0 && next(8) > 0) {
      const [view] = candidates.splice(next(candidates.length), 1)
      if (view === undefined) break
      const tokens = Math.min(1 + next(view.remainingTokens + 2), left)
      left -= tokens
      const drafts = Math.min(next(5), view.draft?.tokens ?? 0, left)
      run.push(next(4) === 0 ? { id: view.id, tokens } : { id: view.id, tokens, drafts })
      left -= drafts
    }
    const admit = admitted.map((view) => view.id)
    return { admit, preempt, reject, run, wakeAt: state.now + 1 + next(20) }
  }

  victim({ running }: SchedulerState): string | undefined {
    this.victims++
    return running[this.next(running.length + 1)]?.id
  }

  observe(event: SchedulerEvent): void {
    if (event.type === 'step') {
      const tokens = event.parts.reduce((sum, part) => sum + part.tokens, 0)
      const drafts = event.parts.reduce((sum, part) => sum + (part.drafts ?? 0), 0)
      const counted = event.prefillTokens + event.decodeSequences + drafts
      if (tokens !== counted) this.wrong.push('step counts')
      const { durationMs } = event
      if (Math.abs(durationMs - stepMsOf(tokens)) > 1e-6)
        this.wrong.push(`a step took ${durationMs} ms`)
      return
    }
    const { request } = event
    if (event.type === 'finished') this.#seen.delete(request.id)
    else this.#seen.set(request.id, request.state)
  }

  /** What it was told gives the same picture as the state. */
  #compare(state: SchedulerState): void {
    const { running, freeSlots, limits } = state
    const isPoolFull = limits.kvTokens !== undefined && freeSlots === 0
    if (!isPoolFull && running.length + freeSlots !== limits.slots) this.wrong.push('free slots')
    let isQueuedSeen = false
    let latest = 0
    for (const view of state.waiting) {
      if (this.#seen.get(view.id) !== view.state) this.wrong.push(`state of ${view.id}`)
      if (view.state === 'preempted' && isQueuedSeen) this.wrong.push('preempted after queued')
      if (view.state === 'queued') {
        if (view.arrival < latest) this.wrong.push('not by arrival')
        latest = view.arrival
        isQueuedSeen = true
      }
      if (view.remainingTokens < 1 || view.computedTokens !== 0) this.wrong.push('waiting tokens')
    }
    for (const view of state.running) {
      const told = this.#seen.get(view.id)
      if (told !== 'prefilling') this.wrong.push(`${view.id} runs, told ${told}`)
      const all = view.promptTokens + view.generatedTokens
      if (view.computedTokens + view.remainingTokens !== all) this.wrong.push('running tokens')
      if (view.state === 'decoding' && view.remainingTokens !== 1) this.wrong.push('decode tokens')
    }
    // Those who wait for another one's prefix are told of, but not shown.
    if (this.#seen.size < state.waiting.size + state.running.length) this.wrong.push('count')
  }
}

/** Fails as a native backend may: for one request, for a whole step, for a copy. */
class FailingBackend extends FakeBackend {
  copiesFail = 0

  override createSampler(params: SamplingParams, tokens: readonly TokenId[]) {
    if (params.seed === unsampled) throw new Error('no sampler for this one')
    return super.createSampler(params, tokens)
  }

  override async copyPrefix(from: number, to: number, length: number): Promise<number> {
    if (this.copiesFail > 0) {
      this.copiesFail--
      throw new Error('no copy')
    }
    return await super.copyPrefix(from, to, length)
  }
}

/** Guesses what the requests will say, right more often than not. */
function knowing(backend: FakeBackend, trials: readonly Trial[], next: (below: number) => number) {
  const registry = new PluginRegistry()
  const propose = (tokens: readonly TokenId[]) => {
    const trial = trials.find(({ prompt }) => prompt.every((token, at) => token === tokens[at]))
    if (trial === undefined) return { tokens: [] }
    const right = backend.continuation(tokens, trial.sampling, next(6))
    return { tokens: right.map((token) => (next(4) === 0 ? next(400) - 20 : token)), kind: next(3) }
  }
  const proposer = { begin: () => ({ propose }) }
  registry.registerProposer({ name: 'tested', doc: 'Knows the model.', create: () => proposer })
  return registry
}

/** What a request alone would say, by the simplest means. */
function alone(backend: FakeBackend, trial: Trial) {
  const { prompt, sampling, maxTokens, request } = trial
  const room = backend.limits.contextSize - prompt.length + 1
  const tokens = backend.continuation(prompt, sampling, Math.min(maxTokens, room))
  const isEnd = !sampling.ignoreEos && tokens.at(-1) === fakeTokenIds.endOfSequence
  if (isEnd) tokens.pop()
  const isVector = (id: TokenId) => id >= backend.tokenizer.vocabularySize
  const behind = prompt.slice(prompt.findLastIndex(isVector) + 1)
  const decoder = backend.tokenizer.createDecoder(behind)
  let text = ''
  for (const [index, token] of tokens.entries()) {
    text += decoder.push(token)
    const met = (request.stop ?? [])
      .map((stop) => ({ stop, at: text.indexOf(stop) }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at || b.stop.length - a.stop.length)[0]
    if (met === undefined) continue
    const { stop, at } = met
    return { tokens: tokens.slice(0, index + 1), text: text.slice(0, at), reason: 'stop', stop }
  }
  return { tokens, text: text + decoder.end(), reason: isEnd ? 'stop' : 'length', stop: undefined }
}

const isGenerated = (event: RequestEvent): event is GenerateEvent => event.type !== 'error'

t.test(
  'every answer is the one that the request gets alone, whatever runs beside it',
  async (t) => {
    const seen = { end: 0, stop: 0, cancelled: 0, timeout: 0, rejected: 0, backend_failed: 0 }
    const backendCalls = { truncate: 0, copyPrefix: 0, release: 0, save: 0, restore: 0 }
    let preemptions = 0
    let victims = 0
    let drafted = 0
    let accepted = 0
    const trials = fc.array(trialArbitrary, { minLength: 1, maxLength: 10 })
    const property = fc.asyncProperty(
      machineArbitrary,
      trials,
      fc.nat(1),
      async (machine, all, fail) => {
        const clock = new SimulatedClock(5000)
        const backend = new FailingBackend({
          ...machine,
          images: true,
          kvTokens: machine.shared < 0 ? undefined : machine.contextSize + machine.shared,
          clock,
          stepMs: (batch) => stepMsOf(batch.reduce((sum, item) => sum + item.tokens.length, 0)),
          copyMs: (length) => length / 10,
          stateMs: (bytes) => bytes / 100,
          failWhen: (batch) =>
            batch.some(({ tokens }) => tokens.includes(poison)) ? new Error('poison') : undefined,
        })
        backend.copiesFail = fail
        backend.media!.encodeMs = machine.encodeMs
        // Also one that says so wrongly: what it drops is computed again.
        Object.assign(backend.capabilities, { drafts: true })
        const policy = new RandomPolicy(randomNumbers(machine.seed))
        const { speculative, cacheRamBytes } = machine
        const registry = knowing(backend, all, randomNumbers(machine.seed + 1))
        const options = { speculative, cacheRamBytes }
        // Expects no answers, so that they outgrow the pool.
        registry.provide(WAIT_PREDICTOR, 'hopeful', ({ original }) =>
          Object.assign(original(), { answerTokens: () => 0 }),
        )
        const use = { 'wait-predictor': 'hopeful' }
        const parts = { backend, policy, clock, random: counting(), registry, use, options }
        const engine = createEngine(parts)
        const events = new Map<string, RequestEvent[]>()
        let tooEarly = 0
        engine.observe({
          onEvents: (batch: readonly AddressedEvent[]) => {
            for (const { id, event } of batch) {
              const list = events.get(id)
              if (list === undefined) tooEarly++
              else list.push(event)
            }
          },
        })
        for (const [index, { request, arrival, cancelAfter }] of all.entries()) {
          const id = `r${index}`
          clock.at(5000 + arrival, () => {
            events.set(id, [])
            engine.submit(id, request)
          })
          if (cancelAfter !== undefined) {
            clock.at(5000 + arrival + cancelAfter, () => engine.cancel(id))
          }
        }
        await runUntilIdle(clock, 5000 + 250)
        await runUntilIdle(clock)

        if (tooEarly > 0) throw new Error('events of an unknown request')
        const sums = { promptTokens: 0, cachedTokens: 0, generatedTokens: 0 }
        const ends = { done: 0, cancelled: 0, failed: 0, timed_out: 0 }
        for (const [index, trial] of all.entries()) {
          const own = events.get(`r${index}`) ?? []
          const expected = alone(backend, trial)
          const said = own.filter(isGenerated)
          const { tokens, text, end } = summarize(said)
          const last = own.at(-1)
          const context = JSON.stringify({ index, trial, own, expected }).slice(0, 4000)
          const check = (isTrue: boolean, what: string): void => {
            if (!isTrue) throw new Error(`${what}: ${context}`)
          }
          const starts = own.filter(({ type }) => type === 'start').length
          // one with an image may end before this is encoded
          const isUntold = starts === 0 && 'media' in trial.request.prompt && own.length === 1
          check(isUntold || own[0]?.type === 'start', 'it starts')
          check(isUntold || starts === 1, 'it starts once')
          const lasts = own.filter(({ type }) => type === 'end' || type === 'error')
          check(lasts.length === 1 && lasts[0] === last, 'it ends once')
          sums.generatedTokens += tokens.length
          if (last?.type === 'error') {
            const { code } = last.error
            const held = last.usage?.promptTokens ?? (isUntold ? 0 : -1)
            check(
              held >= (tokens.length > 0 ? trial.prompt.length : 0),
              'what it had of its prompt',
            )
            check(held <= trial.prompt.length, 'no more than its prompt')
            sums.promptTokens += held
            check(expected.tokens.join().startsWith(tokens.join()), 'its tokens are a beginning')
            check(expected.text.startsWith(text), 'its text is a beginning')
            if (code === 'cancelled') check(trial.cancelAfter !== undefined, 'it was cancelled')
            else if (code === 'timeout')
              check(trial.request.timeoutMs !== undefined, 'it has a limit')
            else if (code === 'backend_failed') {
              const wants = trial.prompt.includes(poison) || trial.sampling.seed === unsampled
              check(wants, 'it cannot be computed')
            } else
              check(code === 'rejected' && last.error.message === 'bad luck', 'it was rejected')
            seen[code as keyof typeof seen]++
            const state =
              { cancelled: 'cancelled', timeout: 'timed_out' }[code as string] ?? 'failed'
            ends[state as keyof typeof ends]++
            continue
          }
          ends.done++
          if (end === undefined) throw new Error('unreachable')
          seen.end++
          if (end.stop !== undefined) seen.stop++
          check(!trial.prompt.includes(poison), 'poison is not computed')
          check(tokens.join() === expected.tokens.join(), 'its tokens are its own')
          check(text === expected.text, `its text is ${JSON.stringify(text)}`)
          check(end.reason === expected.reason && end.stop === expected.stop, 'its reason')
          const { usage, timings } = end
          check(usage.promptTokens === trial.prompt.length, 'prompt tokens')
          sums.promptTokens += usage.promptTokens
          check(usage.generatedTokens === tokens.length, 'generated tokens')
          check(usage.cachedTokens < trial.prompt.length, 'cached tokens')
          check(trial.request.cache === true || usage.cachedTokens === 0, 'cached without cache')
          check(
            Object.values(timings).every((ms) => ms >= 0),
            'timings',
          )
          check(timings.queueMs + timings.prefillMs === timings.firstTokenMs, 'time to first token')
          check(timings.firstTokenMs + timings.decodeMs <= timings.totalMs, 'total time')
        }
        const statistics = engine.statistics()
        const problems = {
          ...(leftovers({ backend, engine }) as object),
          wrong: policy.wrong,
          timers: clock.nextTimer(),
          requests: statistics.requests,
          promptTokens: statistics.promptTokens,
          generatedTokens: statistics.generatedTokens,
          steps: statistics.steps <= backend.steps.length,
        }
        const fine = {
          ...nothingLeft,
          wrong: [],
          timers: undefined,
          requests: ends,
          promptTokens: sums.promptTokens,
          generatedTokens: sums.generatedTokens,
          steps: true,
        }
        if (JSON.stringify(problems) !== JSON.stringify(fine))
          throw new Error(JSON.stringify(problems))
        for (const { type } of backend.operations) {
          if (type === 'shift') throw new Error('no request may shift its context')
          backendCalls[type]++
        }
        preemptions += statistics.preemptions
        victims += policy.victims
        drafted += statistics.speculation?.draftTokens ?? 0
        accepted += statistics.speculation?.acceptedTokens ?? 0
        await engine.close()
      },
    )
    await fc.assert(property, {
      numRuns: 120,
      endOnFailure: true,
      examples: [
        [{ ...roomy, seed: 1 }, alike, 0],
        ...Array.from(
          { length: 12 },
          (_, seed): [typeof roomy & { seed: number }, Trial[], number] => [
            {
              ...roomy,
              contextSize: 200,
              shared: 10 * seed,
              cacheRamBytes: seed % 2 === 0 ? 0 : 1e6,
              seed,
            },
            crowd,
            0,
          ],
        ),
      ],
    })
    const counts = {
      ...seen,
      ...backendCalls,
      preemptions,
      victims,
      accepted,
      wrongDrafts: drafted - accepted,
    }
    for (const [what, count] of Object.entries(counts)) {
      t.ok(count > 0, `${what} was among it, ${count} times`)
    }
  },
)
