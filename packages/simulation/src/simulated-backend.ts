import type {
  Backend,
  BackendCapabilities,
  BackendLimits,
  BatchItem,
  Clock,
  ModelInfo,
  Sampler,
  SlotId,
  StepResult,
  TokenId,
  Tokenizer,
} from '@cllm/core'
import { CllmError } from '@cllm/core/portable'
import type { MachineModel } from './machine-model.js'

/** The size of a simulated backend. */
export interface SimulatedLimits {
  readonly slots: number
  readonly contextSize: number
  readonly batchSize: number
}

/** A step as it ran. */
export interface SimulatedStep {
  readonly startedAt: number
  readonly durationMs: number
  readonly prefillTokens: number
  readonly decodeSequences: number
}

/** Token ids of prompts are 30-bit numbers. */
const vocabularySize = 2 ** 30
/** The token of every answer. No prompt has it, so no answer is found as a prefix. */
const drawn: TokenId = 0
const sampler: Sampler = { dispose: () => undefined }

const tokenizer: Tokenizer = {
  vocabularySize,
  maxTokenBytes: 16,
  encode: () => noText(),
  decode: () => '',
  createDecoder: () => ({ push: () => '', end: () => '' }),
  isEndOfGeneration: () => false,
  renderChat: () => noText(),
}

function noText(): never {
  throw new CllmError('unsupported', 'A simulated model takes prompts in tokens')
}

/**
 * A backend that computes nothing and takes, on its clock, as long as a {@link MachineModel} says. It
 * knows how long each slot's content is and leaves to the engine which tokens that are.
 */
export class SimulatedBackend implements Backend {
  readonly specificationVersion = 1
  readonly model: ModelInfo
  readonly limits: BackendLimits
  readonly capabilities: BackendCapabilities = {
    grammar: false,
    logprobs: false,
    embeddings: false,
    lora: false,
    gpu: false,
  }
  readonly tokenizer = tokenizer
  readonly #lengths: number[]

  constructor(
    private readonly clock: Clock,
    private readonly machine: MachineModel,
    limits: SimulatedLimits,
    private readonly onStep?: (step: SimulatedStep) => void,
  ) {
    this.limits = Object.freeze({ ...limits, chunkMultiple: machine.chunkMultiple })
    this.#lengths = Array.from({ length: limits.slots }, () => 0)
    this.model = Object.freeze({
      id: machine.name,
      architecture: 'simulated',
      parameters: 0,
      vocabularySize,
      trainingContext: limits.contextSize,
      quantization: 'none',
      sizeBytes: 0,
    })
  }

  createSampler(): Sampler {
    return sampler
  }

  async step(batch: readonly BatchItem[]): Promise<StepResult> {
    let prefillTokens = 0
    const shares = batch.map(({ slot, position, tokens: { length } }) => {
      if (position !== this.#lengths[slot]) {
        const problem = `position ${position}, the slot holds ${this.#lengths[slot]} tokens`
        throw new CllmError('backend_failed', `simulated step: slot ${slot}: ${problem}`)
      }
      if (length > 1) prefillTokens += length
      return { slot, tokens: length, context: position }
    })
    const startedAt = this.clock.now()
    const durationMs = this.machine.stepMs(shares)
    const decodeSequences = shares.filter(({ tokens }) => tokens === 1).length
    this.onStep?.({ startedAt, durationMs, prefillTokens, decodeSequences })
    await this.#wait(durationMs)
    for (const { slot, tokens } of shares) this.#lengths[slot] = this.#length(slot) + tokens
    const outputs = batch.map((item) =>
      item.outputs.map((position) => ({ position, token: drawn })),
    )
    return { outputs, decodeMs: durationMs, sampleMs: 0 }
  }

  truncate(slot: SlotId, length: number): number {
    return (this.#lengths[slot] = Math.min(length, this.#length(slot)))
  }

  async copyPrefix(from: SlotId, to: SlotId, length: number): Promise<number> {
    await this.#wait(this.machine.copyMs(length))
    return (this.#lengths[to] = Math.min(length, this.#length(from)))
  }

  release(slot: SlotId): void {
    this.#lengths[slot] = 0
  }

  preferSlot(free: readonly SlotId[], used: readonly SlotId[]): SlotId {
    const [first = 0] = free
    if (this.machine.layoutMs === undefined) return first
    const costOf = (slot: SlotId) => this.layoutMs([...used, slot])
    return free.reduce((best, slot) => (costOf(slot) < costOf(best) ? slot : best), first)
  }

  layoutMs(used: readonly SlotId[]): number {
    return this.machine.layoutMs?.(used) ?? 0
  }

  async dispose(): Promise<void> {}

  #length(slot: SlotId): number {
    return this.#lengths[slot] ?? 0
  }

  async #wait(milliseconds: number): Promise<void> {
    const until = this.clock.now() + milliseconds
    await new Promise<void>((resolve) => void this.clock.at(until, resolve))
  }
}
