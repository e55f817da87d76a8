import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import type {
  AppliedAdapter,
  Backend,
  BackendCapabilities,
  BackendLimits,
  BatchItem,
  EmbedMixed,
  ModelInfo,
  Sampler,
  SlotId,
  SlotStates,
  StepResult,
  SamplingParams,
  TokenId,
  Tokenizer,
} from '@cllm/core'
import { CllmError, defined, hashTokens } from '@cllm/core'
import { checkBatch } from './check-batch.js'
import type { FakeBackendOptions, FakeOperation, FakeStep } from './fake-calls.js'
import { LongCalls } from './fake-calls.js'
import { FakeModel, fakeEmbedding } from './fake-model.js'
import { FakeTokenizer } from './fake-tokenizer.js'
import { FakeSampler } from './fake-sampler.js'
import { FakeImages } from './fake-images.js'
import { FakeSlot, fakeStates } from './fake-slot.js'
import { FakeAdapters, adapterProblem, saltOf } from './fake-adapters.js'

/**
 * A backend without a model, for tests and simulations. Its next token depends on every token in the
 * slot, so that any mistake with positions, slots or copied prefixes shows as other text; and every
 * call is checked: what llama.cpp or the contract forbids throws `backend_failed` and is kept in
 * {@link violations}.
 */
export class FakeBackend implements Backend {
  readonly specificationVersion = 1
  readonly model: ModelInfo
  readonly limits: BackendLimits
  readonly capabilities: BackendCapabilities
  readonly tokenizer: Tokenizer
  readonly states: SlotStates
  readonly adapters?: FakeAdapters
  readonly media?: FakeImages
  readonly layoutMs?: (used: readonly SlotId[]) => number
  /** Every step started so far, including failed ones. */
  readonly steps: FakeStep[] = []
  /** Every call that changes or reads slots between steps so far. */
  readonly operations: FakeOperation[] = []
  /** What was done wrong so far; a test of an engine expects none. */
  readonly violations: string[] = []
  /** Steps that were interrupted. */
  interrupts = 0
  /** Samplers that are not disposed. */
  readonly samplers: ReadonlySet<Sampler>

  readonly #model: FakeModel
  readonly #slots: readonly FakeSlot[]
  readonly #samplers = new Set<FakeSampler>()
  readonly #calls: LongCalls
  #isEmbedding = false
  #disposed = false

  constructor(private readonly options: FakeBackendOptions = {}) {
    const { id = 'fake', endProbability = 0, script, keepMultipleOf = 1 } = options
    const { slots = 4, contextSize = 256, batchSize = 64, kvTokens } = options
    if (options.clock === undefined && (options.stepMs ?? options.copyMs) !== undefined) {
      throw new CllmError('invalid_configuration', 'FakeBackend: stepMs and copyMs need a clock')
    }
    this.#calls = new LongCalls(options.clock)
    this.#model = new FakeModel({ id, endProbability, script })
    this.#slots = Array.from({ length: slots }, () => new FakeSlot(this.#model.emptyHash))
    this.samplers = this.#samplers
    this.tokenizer = new FakeTokenizer(options.canInfill)
    if (options.layoutMs !== undefined) this.layoutMs = options.layoutMs
    this.capabilities = {
      logprobs: true,
      drawLogprobs: true,
      promptLogprobs: true,
      drafts: keepMultipleOf === 1,
      gpu: false,
    }
    // what an engine finds is there by these methods
    if (options.embeddingSize === undefined) Object.assign(this, { embed: undefined })
    if (options.contextShift !== true) Object.assign(this, { shift: undefined })
    const apart = { betweenSteps: true, isApart: true } as const
    if (options.adapters === true)
      this.adapters = new FakeAdapters((call) => this.#check(call, apart))
    const { images = false, audio = false } = options
    if (images || audio) {
      const types = [...(images ? ['image'] : []), ...(audio ? ['audio'] : [])]
      this.media = new FakeImages(this.tokenizer.vocabularySize, types, options.clock)
    }
    this.limits = Object.freeze({ slots, contextSize, batchSize, ...defined({ kvTokens }) })
    this.states = fakeStates({
      id,
      contextSize,
      keepMultipleOf,
      operations: this.operations,
      slot: (slot) => this.#slot(slot),
      freeTokens: () => this.freeTokens ?? Infinity,
      during: async (call, bytes, work) => {
        this.#check(call, { betweenSteps: true })
        return await this.#calls.during(call, this.options.stateMs?.(bytes) ?? 0, work)
      },
      violation: (problem) => this.#violation(problem),
    })
    this.model = Object.freeze({
      id,
      architecture: 'fake',
      parameters: 0,
      vocabularySize: this.tokenizer.vocabularySize,
      trainingContext: contextSize,
      quantization: 'none',
      sizeBytes: 0,
      ...(options.details !== undefined && { details: options.details }),
      ...(images && { images }),
      ...(audio && { audio }),
    })
  }

  /** How many more tokens its slots can hold together, where it has `kvTokens`. */
  get freeTokens(): number | undefined {
    const { kvTokens } = this.limits
    if (kvTokens === undefined) return undefined
    return kvTokens - new Set(this.#slots.flatMap(({ cells }) => cells)).size
  }

  /** Whether a step is under way. */
  get isStepping(): boolean {
    return this.#calls.busy === 'step'
  }

  /** The output of the model after `content`: up to `count` tokens. */
  continuation(
    content: readonly TokenId[],
    params: SamplingParams,
    count: number,
    applied?: readonly AppliedAdapter[],
  ): TokenId[] {
    return this.#model.continuation(content, params, count, saltOf(applied))
  }

  /** The tokens in a slot. */
  content(slot: SlotId): readonly TokenId[] {
    return this.#slot(slot).tokens
  }

  createSampler(params: SamplingParams, tokens: readonly TokenId[]): Sampler {
    this.#check('createSampler', { betweenSteps: false })
    const sampler = new FakeSampler(params, tokens, this.#model.emptyHash, (disposed) => {
      if (disposed.disposed) this.#violation('Sampler.dispose: called twice')
      if (this.#calls.busy === 'step') this.#violation('Sampler.dispose: called during a step')
      this.#samplers.delete(disposed)
    })
    this.#samplers.add(sampler)
    return sampler
  }

  async step(batch: readonly BatchItem[]): Promise<StepResult> {
    this.#check('step', { betweenSteps: true, isApart: true })
    const context = {
      limits: this.limits,
      vocabularySize: this.tokenizer.vocabularySize,
      slots: this.#slots,
      samplers: this.#samplers,
      freeTokens: this.freeTokens ?? Infinity,
    }
    const problem = checkBatch(batch, context) ?? adapterProblem(batch, (slot) => this.#slot(slot))
    if (problem !== undefined) this.#violation(`step: ${problem}`)
    const items = batch.map((item) => Object.freeze({ ...item, tokens: [...item.tokens] }))
    this.steps.push({ batch: items, startedAt: this.options.clock?.now() ?? 0 })
    const milliseconds = this.options.stepMs?.(items) ?? 0
    return this.#calls.during('step', milliseconds, () => {
      if (this.#calls.isInterrupted)
        return { outputs: [], decodeMs: 0, sampleMs: 0, isInterrupted: true }
      const failure = this.options.failWhen?.(items, this.steps.length)
      if (failure !== undefined) throw failure
      const outputs = items.map((item) => this.#model.compute(item, this.#slot(item.slot)))
      const scores = items.map((item) => this.#model.score(this.#slot(item.slot), item.scores))
      return { outputs, scores, decodeMs: milliseconds, sampleMs: 0 }
    })
  }

  /** The step under way ends in the next turn of the event loop. */
  interrupt(): void {
    if (!this.isStepping) return
    this.interrupts++
    this.#calls.interrupt()
  }

  async embed(
    inputs: readonly (readonly TokenId[])[],
    adapters: readonly AppliedAdapter[] = [],
  ): Promise<number[][]> {
    this.#check('embed', { betweenSteps: false })
    const isPass = this.#isEmbedding || this.isStepping || this.adapters?.isLoading === true
    if (isPass) this.#violation('embed: called during a pass')
    this.#isEmbedding = true
    await turnOfTheEventLoop()
    this.#isEmbedding = false
    const size = this.options.embeddingSize ?? 0
    const salt = saltOf(adapters)
    return inputs.map((tokens) =>
      fakeEmbedding(hashTokens(this.#model.emptyHash, tokens) + salt, size),
    )
  }

  async embedMixed(...[tokens, , adapters]: Parameters<EmbedMixed>): Promise<readonly number[]> {
    const [vector] = await this.embed([tokens], adapters)
    return vector!
  }

  truncate(slot: SlotId, length: number): number {
    this.#check('truncate', { betweenSteps: true })
    const kept = this.#kept('truncate', slot, length)
    this.operations.push({ type: 'truncate', slot, length })
    this.#slot(slot).truncate(kept)
    return kept
  }

  async copyPrefix(from: SlotId, to: SlotId, length: number): Promise<number> {
    this.#check('copyPrefix', { betweenSteps: true })
    const kept = this.#kept('copyPrefix', from, length)
    if (from === to) this.#violation(`copyPrefix: from slot ${from} to itself`)
    const target = this.#slot(to)
    this.operations.push({ type: 'copyPrefix', from, to, length })
    return this.#calls.during('copyPrefix', this.options.copyMs?.(length) ?? 0, () => {
      target.truncate(0)
      const { tokens, cells } = this.#slot(from)
      target.append(tokens.slice(0, kept), cells)
      target.salt = kept === 0 ? 0 : this.#slot(from).salt
      return kept
    })
  }

  shift(slot: SlotId, keep: number, discard: number): void {
    this.#check('shift', { betweenSteps: true })
    const held = this.#slot(slot).tokens.length
    if (keep < 0 || discard < 1 || keep + discard > held) {
      this.#violation(`shift: ${discard} tokens after ${keep}, slot ${slot} holds ${held}`)
    }
    this.operations.push({ type: 'shift', slot, keep, discard })
    this.#slot(slot).shift(keep, discard)
  }

  release(slot: SlotId): void {
    this.#check('release', { betweenSteps: true })
    this.operations.push({ type: 'release', slot })
    this.#slot(slot).truncate(0)
  }

  preferSlot(free: readonly SlotId[], used: readonly SlotId[]): SlotId {
    const [first] = free
    if (first === undefined) return this.#violation('preferSlot: no slot is free')
    for (const slot of [...free, ...used]) this.#slot(slot)
    if (used.some((slot) => free.includes(slot)))
      this.#violation('preferSlot: free and used overlap')
    return first
  }

  /** Any later call is a violation. */
  async dispose(): Promise<void> {
    this.#check('dispose', { betweenSteps: true })
    this.#disposed = true
  }

  #kept(call: string, slot: SlotId, length: number): number {
    const held = this.#slot(slot).tokens.length
    if (!Number.isInteger(length) || length < 0 || length > held) {
      this.#violation(`${call}: length ${length}, slot ${slot} holds ${held} tokens`)
    }
    const multiple = this.options.keepMultipleOf ?? 1
    return length === held ? held : length - (length % multiple)
  }

  #slot(slot: SlotId): FakeSlot {
    const found = this.#slots[slot]
    return found ?? this.#violation(`slot ${slot} of ${this.limits.slots}: there is no such slot`)
  }

  #check(call: string, when: { readonly betweenSteps: boolean; readonly isApart?: true }): void {
    if (this.#disposed) this.#violation(`${call}: the backend is disposed`)
    if (when.betweenSteps && this.#calls.busy !== undefined)
      this.#violation(`${call}: called during a ${this.#calls.busy}`)
    if (when.isApart && this.#isEmbedding) this.#violation(`${call}: called during an embed`)
  }

  #violation(problem: string): never {
    this.violations.push(problem)
    throw new CllmError('backend_failed', `FakeBackend: ${problem}`)
  }
}
