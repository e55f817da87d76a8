import {
  type Backend,
  type BackendCapabilities,
  type BackendLimits,
  type BatchItem,
  CllmError,
  type Clock,
  defined,
  type EmbedMixed,
  type LogitProcessor,
  type MediaEncoder,
  type ModelInfo,
  type OutputLogprobs,
  type SamplingParams,
  type SlotId,
  type SlotStates,
  type StepOutput,
  type StepResult,
  type TokenId,
  type Tokenizer,
} from '@cllm/core'
import { z } from 'zod'
import type { ConstraintGrammars } from './grammar/constraint-grammars.js'
import { type LlamaCppAdapters, nativeAdapters } from './model/adapters.js'
import type { Embedder } from './model/embedder.js'
import type { OpenContext } from './model/open-context.js'
import { computeVectors, undoVectors } from './media/compute-vectors.js'
import type { FileEncoder } from './media/file-encoder.js'
import { endAll, type LogitsContext, type SequenceRun } from './native/native-context.js'
import { ConstraintTrack } from './sampling/constraint-track.js'
import { announceDraws, drawPass, prepareDraw } from './sampling/pass-draws.js'
import type { SamplerFactory, TokenSampler } from './sampling/token-sampler.js'
import { BatchFiller } from './slots/batch-filler.js'
import { PassCosts, preferSlot } from './slots/pass-costs.js'
import type { SlotCells } from './slots/slot-cells.js'
import { orderBatch, type StepPass, wantedPositions } from './slots/step-batch.js'
import type { Vocabulary } from './text/vocabulary.js'

/** The components of a {@link LlamaCppBackend}. */
export interface LlamaCppBackendParts extends Omit<OpenContext, 'samplers'> {
  readonly model: ModelInfo
  readonly limits: BackendLimits
  readonly capabilities: BackendCapabilities
  /** Whether tokens can be removed from the middle of slots. */
  readonly canShift: boolean
  readonly tokenizer: Tokenizer
  readonly vocabulary: Vocabulary
  readonly cells: SlotCells
  readonly samplers: SamplerFactory
  readonly grammars: ConstraintGrammars
  readonly embedder: Embedder
  /** Saves and restores slots, if that is possible. */
  readonly states?: SlotStates | undefined
  /** Loads and applies adapters, if that is possible. */
  readonly adapters?: LlamaCppAdapters | undefined
  /** Whether all slots share one pool of KV cells. */
  readonly kvUnified: boolean
  /** Queries per tile of attention; undefined: it has no tiles. */
  readonly tile?: number | undefined
  /** Encodes images and sounds; default: the model takes none. */
  readonly encoder?: FileEncoder | undefined
  readonly clock: Clock
  /** Frees the model. */
  readonly close: () => Promise<void>
}

/** The learned costs; threads and passes each check their own part. */
const learned = z.object({ threads: z.unknown(), passes: z.unknown() }).partial()

const none: readonly never[] = []

/**
 * llama.cpp behind the {@link Backend} contract: one native forward pass per step for all sequences.
 */
export class LlamaCppBackend implements Backend {
  readonly specificationVersion = 1
  readonly model: ModelInfo
  readonly limits: BackendLimits
  readonly capabilities: BackendCapabilities
  readonly tokenizer: Tokenizer
  readonly states?: SlotStates
  readonly adapters?: LlamaCppAdapters
  readonly media?: MediaEncoder
  readonly embedMixed?: EmbedMixed
  readonly interrupt?: () => void
  readonly shift?: NonNullable<Backend['shift']>
  readonly preferSlot: Backend['preferSlot']
  readonly #costs: PassCosts
  readonly #filler: BatchFiller
  /** Whether a step is running that can be interrupted. */
  #canLeave = false
  #isLeaving = false
  #disposed = false

  constructor(private readonly parts: LlamaCppBackendParts) {
    this.#costs = new PassCosts(parts.tile, parts.capabilities.gpu !== false)
    this.#filler = new BatchFiller(parts, this.#costs)
    this.model = parts.model
    this.limits = parts.limits
    this.capabilities = parts.capabilities
    this.tokenizer = parts.tokenizer
    if (parts.states !== undefined) this.states = parts.states
    if (parts.adapters !== undefined) this.adapters = parts.adapters
    if (parts.encoder !== undefined) this.media = parts.encoder
    if (parts.embedder.limits.mixed !== undefined) {
      this.embedMixed = (tokens, media, adapters) => {
        this.#checkOpen()
        return parts.embedder.embedMixed(tokens, media, nativeAdapters(adapters))
      }
    }
    const { abortable, cells } = parts
    if (parts.canShift) this.shift = (slot, keep, discard) => cells.shift(slot, keep, discard)
    this.preferSlot = parts.kvUnified ? ([first]) => first! : preferSlot
    if (abortable !== undefined) {
      this.interrupt = () => {
        if (!this.#canLeave) return
        this.#isLeaving = true
        abortable.setAborting(true)
      }
    }
  }

  get freeTokens(): number | undefined {
    return this.parts.cells.freeTokens
  }

  createSampler(
    params: SamplingParams,
    tokens: readonly TokenId[],
    promptTokens = tokens.length,
    processors?: readonly LogitProcessor[],
  ): TokenSampler {
    this.#checkOpen()
    const { samplers, grammars, vocabulary } = this.parts
    const constraint =
      params.constraint &&
      new ConstraintTrack(grammars.of(params.constraint), vocabulary, tokens, promptTokens)
    return samplers.create(params, tokens, defined({ processors, constraint }))
  }

  checkConstraint(...given: Parameters<ConstraintGrammars['prepare']>): void | Promise<void> {
    this.#checkOpen()
    return this.parts.grammars.prepare(...given)
  }

  async step(batch: readonly BatchItem[]): Promise<StepResult> {
    this.#checkOpen()
    if (this.capabilities.generates === false) {
      // Without KV memory each token is an output, and more outputs than the context has room for end the process.
      const message = `${this.model.id} writes no text: it has embeddings only`
      throw new CllmError('unsupported', message)
    }
    if (batch.length > 0) this.adapters?.prepare(batch)
    const { stateful } = this.parts
    const isMixed = stateful !== undefined && batch.some(({ media }) => media !== undefined)
    return isMixed
      ? await this.#stepMixed(batch, stateful)
      : await this.#step(batch, true, batch.length)
  }

  /** Computes a step with prompts that contain images or sounds. */
  async #stepMixed(batch: readonly BatchItem[], context: LogitsContext): Promise<StepResult> {
    const { cells, clock } = this.parts
    const started = clock.now()
    const { items, places } = await computeVectors(batch, cells, context)
    const vectorMs = clock.now() - started
    try {
      // a part of an image cannot be removed again, so this step cannot be interrupted
      const isWithin = batch.some(({ media }) => (media?.[0]?.shape?.skipped ?? 0) > 0)
      const result = await this.#step(items, !isWithin, batch.length)
      if (result.isInterrupted === true) undoVectors(batch, cells)
      const inPlace = <T>(of: readonly (readonly T[])[]) =>
        batch.map((_, index) => of[places.indexOf(index)] ?? [])
      const [outputs, scores] = [inPlace(result.outputs), inPlace(result.scores ?? [])]
      const errors = new Map(Array.from(result.errors ?? [], ([at, error]) => [places[at]!, error]))
      return { ...result, outputs, scores, errors, decodeMs: result.decodeMs + vectorMs }
    } catch (error) {
      undoVectors(batch, cells)
      throw error
    }
  }

  /** @param all - the number of items that the caller passed: if as many fail, the step throws */
  async #step(batch: readonly BatchItem[], canLeave: boolean, all: number): Promise<StepResult> {
    const { cells, vocabulary, clock, threads, samplers, kvUnified } = this.parts
    if (batch.length === 0) return { outputs: [], decodeMs: 0, sampleMs: 0 }
    const outputs: (readonly StepOutput[])[] = []
    const scores: (readonly OutputLogprobs[])[] = []
    while (outputs.length < batch.length) outputs.push(none)
    while (scores.length < batch.length) scores.push(none)
    const errors = new Map<number, CllmError>()
    const items = this.#filler.filled(batch)
    let [decodeMs, sampleMs] = [0, 0]
    this.#canLeave = canLeave && cells.canLeavePass
    try {
      for (const pass of orderBatch(items, cells, vocabulary, this.limits, kvUnified)) {
        threads?.before(pass)
        const started = clock.now()
        if (!(await this.#decode(items, pass, started))) {
          for (const { slot } of items) cells.rollBack(slot)
          return { outputs: [], decodeMs, sampleMs, isInterrupted: true }
        }
        const decoded = clock.now()
        threads?.after(pass, decoded - started)
        this.#filler.observePass(items, pass, decoded - started)
        await drawPass(items, pass.order, { outputs, scores, errors }, samplers)
        decodeMs += decoded - started
        sampleMs += clock.now() - decoded
      }
      if (errors.size === all) throw errors.get(0)
    } catch (error) {
      for (const { slot } of items) cells.rollBack(slot)
      throw CllmError.from(error, 'backend_failed')
    } finally {
      if (this.#isLeaving) this.parts.abortable?.setAborting(false)
      this.#isLeaving = false
      this.#canLeave = false
    }
    for (const item of batch) cells.filled(item.slot, item.position + item.tokens.length)
    this.#filler.onComputed(batch, items, decodeMs)
    return { outputs, scores, errors, decodeMs, sampleMs }
  }

  embed(...[inputs, adapters]: Parameters<NonNullable<Backend['embed']>>): Promise<number[][]> {
    this.#checkOpen()
    return this.parts.embedder.embed(inputs, nativeAdapters(adapters))
  }

  truncate(slot: SlotId, length: number): number {
    return this.parts.cells.truncate(slot, length)
  }

  copyPrefix(from: SlotId, to: SlotId, length: number): Promise<number> {
    return this.parts.cells.copy(from, to, length)
  }

  release(slot: SlotId): void {
    this.parts.cells.clear(slot)
  }

  layoutMs(used: readonly SlotId[]): number {
    return this.#filler.lostMs(used)
  }

  learned(): z.input<typeof learned> {
    return { threads: this.parts.threads?.learned(), passes: this.#costs.learned() }
  }

  recall(given: unknown): void {
    const { threads, passes } = learned.parse(given)
    this.#costs.recall(passes)
    if (threads !== undefined) this.parts.threads?.recall(threads)
  }

  async dispose(): Promise<void> {
    if (this.#disposed) return
    this.#disposed = true
    const { samplers, embedder, grammars, encoder, context, close } = this.parts
    await endAll(samplers, embedder, grammars, encoder, context, { dispose: close })
  }

  #checkOpen(): void {
    if (this.#disposed) throw new CllmError('backend_failed', 'the backend was disposed of')
  }

  /** Computes a pass; returns false if it was interrupted. */
  async #decode(batch: readonly BatchItem[], pass: StepPass, started: number): Promise<boolean> {
    const { cells, context, samplers, clock } = this.parts
    const runs: SequenceRun[] = []
    for (const index of pass.order) {
      const item = batch[index]!
      const { slot: sequence, position: first, tokens } = item
      const position = cells.positionOf(sequence, first)
      const wanted = wantedPositions(item)
      const outputs = position === first ? wanted : wanted.map((at) => at + position - first)
      runs.push({ sequence, position, tokens, outputs })
    }
    const decoding = context.decodeBatch(runs)
    // while the pass is computed
    const announce = samplers.threads?.announce
    const cancel =
      announce && announceDraws(announce, clock, started + this.#filler.forecastMs(batch, pass))
    try {
      for (const index of pass.order) prepareDraw(batch[index]!)
      return await decoding
    } catch (error) {
      await decoding
      throw error
    } finally {
      cancel?.()
    }
  }
}
