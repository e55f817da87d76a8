import {
  type Backend,
  type BackendCapabilities,
  type BackendLimits,
  type BatchItem,
  CellPool,
  CllmError,
  type Clock,
  defined,
  type ModelInfo,
  pause,
  type SamplingParams,
  type SlotId,
  type StepRecord,
  type StepResult,
  type TokenId,
  type Tokenizer,
} from '@cllm/core'
import type { MachineModel } from './machine.js'
import {
  callToken,
  hashedTokens,
  mixed,
  outputsOf,
  SimulatedEncoder,
  type SimulatedEncodes,
  SimulatedSampler,
  tokenizerOf,
  vocabularySize,
} from './simulated-model.js'

/** The size of a simulated backend. */
export interface SimulatedLimits extends Pick<
  BackendLimits,
  'slots' | 'contextSize' | 'batchSize' | 'kvTokens'
> {
  /**
   * Share of draft tokens that are accepted, 0 to 1: the probability that an answer's token is the expected
   * one. Default: there are no drafts.
   */
  readonly acceptance?: number
  /** Costs of encoding images. Default: the backend takes no images. */
  readonly encodes?: SimulatedEncodes
  /** The tools that parts of prompts may call. Default: none. */
  readonly tools?: readonly string[]
}

/** A step that ran: when, how long, and what it computed. */
export type SimulatedStep = Pick<
  StepRecord,
  'startedAt' | 'durationMs' | 'prefillTokens' | 'decodeSequences' | 'draftTokens'
>

/**
 * A backend that computes nothing: a step takes as long on its clock as the {@link MachineModel} says. It
 * keeps the length of each slot's content only; the engine knows the tokens.
 */
export class SimulatedBackend implements Backend {
  readonly specificationVersion = 1
  readonly model: ModelInfo
  readonly limits: BackendLimits
  readonly capabilities: BackendCapabilities
  readonly tokenizer: Tokenizer
  readonly layoutMs?: (used: readonly SlotId[]) => number
  readonly media?: SimulatedEncoder
  readonly #tools: ReadonlyMap<TokenId, string>
  readonly #lengths: number[]
  readonly #acceptance: number
  readonly #pool: CellPool | undefined

  constructor(
    private readonly clock: Clock,
    private readonly machine: MachineModel,
    { slots, contextSize, batchSize, kvTokens, acceptance, encodes, tools = [] }: SimulatedLimits,
    private readonly onStep?: (step: SimulatedStep) => void,
  ) {
    const { chunkMultiple } = machine
    const limits = { slots, contextSize, batchSize, chunkMultiple, ...defined({ kvTokens }) }
    this.limits = Object.freeze(limits)
    this.#tools = new Map(tools.map((tool) => [callToken(tool), tool]))
    this.tokenizer = tokenizerOf(this.#tools)
    this.#acceptance = acceptance ?? 1
    if (encodes !== undefined) this.media = new SimulatedEncoder(clock, encodes)
    if (machine.layoutMs !== undefined) this.layoutMs = machine.layoutMs
    this.capabilities = { logprobs: false, drafts: acceptance !== undefined, gpu: false }
    this.#pool = kvTokens === undefined ? undefined : new CellPool(kvTokens, slots)
    this.#lengths = Array.from({ length: slots }, () => 0)
    this.model = Object.freeze({
      id: machine.name,
      architecture: 'simulated',
      parameters: 0,
      vocabularySize,
      trainingContext: contextSize,
      quantization: 'none',
      sizeBytes: 0,
    })
  }

  get freeTokens(): number | undefined {
    return this.#pool?.free
  }

  createSampler(
    { seed }: SamplingParams,
    tokens: readonly TokenId[],
    promptTokens = tokens.length,
  ) {
    const end = tokens.slice(Math.max(0, promptTokens - hashedTokens), promptTokens)
    const last = end.at(-1)
    const call = last !== undefined && this.#tools.has(last) ? last : undefined
    return new SimulatedSampler(end.reduce(mixed, seed), this.#acceptance, promptTokens, call)
  }

  async step(batch: readonly BatchItem[]): Promise<StepResult> {
    let [prefillTokens, decodeSequences, draftTokens] = [0, 0, 0]
    const shares = batch.map(({ slot, position, tokens: { length }, drafts = 0 }) => {
      if (position !== this.#lengths[slot]) {
        const problem = `position ${position}, the slot holds ${this.#lengths[slot]} tokens`
        throw new CllmError('backend_failed', `simulated step: slot ${slot}: ${problem}`)
      }
      draftTokens += drafts
      if (length - drafts === 1) decodeSequences++
      else prefillTokens += length
      return { slot, tokens: length, context: position }
    })
    const startedAt = this.clock.now()
    const durationMs = this.machine.stepMs(shares) * (this.media?.slowness ?? 1)
    this.onStep?.({ startedAt, durationMs, prefillTokens, decodeSequences, draftTokens })
    await pause(this.clock, durationMs)
    for (const { slot, tokens } of shares) this.#resize(slot, this.#length(slot) + tokens)
    return { outputs: batch.map(outputsOf), decodeMs: durationMs, sampleMs: 0 }
  }

  truncate(slot: SlotId, length: number): number {
    return this.#resize(slot, Math.min(length, this.#length(slot)))
  }

  async copyPrefix(from: SlotId, to: SlotId, length: number): Promise<number> {
    await pause(this.clock, this.machine.copyMs(length))
    const copied = Math.min(length, this.#length(from))
    this.#pool?.copy(from, to, copied)
    return (this.#lengths[to] = copied)
  }

  release(slot: SlotId): void {
    this.#resize(slot, 0)
  }

  preferSlot(free: readonly SlotId[], used: readonly SlotId[]): SlotId {
    const [first = 0] = free
    const { layoutMs } = this
    if (layoutMs === undefined) return first
    const costOf = (slot: SlotId) => layoutMs([...used, slot])
    return free.reduce((best, slot) => (costOf(slot) < costOf(best) ? slot : best), first)
  }

  async dispose(): Promise<void> {}

  #resize(slot: SlotId, length: number): number {
    this.#pool?.resize(slot, length)
    return (this.#lengths[slot] = length)
  }

  #length(slot: SlotId): number {
    return this.#lengths[slot] ?? 0
  }
}
