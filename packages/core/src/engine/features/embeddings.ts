import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import type { EmbedOptions, Embedding } from '../../contracts/engine/engine-client.js'
import type { Prompt } from '../../contracts/engine/generate-request.js'
import { cancelled, CllmError } from '../../errors/cllm-error.js'
import { defined } from '../../defined.js'
import * as tokens from '../../tokens.js'
import { embed, type EmbedInput } from '../backend-calls.js'
import type { RequestAdapters } from '../../contracts/model/model-info.js'
import { AdapterTable } from './adapters.js'
import { unsupported } from '../input/check-request.js'
import { hasMedia, resolveMedia } from '../input/resolve-media.js'
import { resolvePrompt } from '../input/resolve-prompt.js'
import { InputContext } from '../input/resolve-request.js'
import { BetweenSteps, type LoopWork } from '../loop/between-steps.js'

interface Job extends EmbedInput {
  readonly adapters: RequestAdapters
  readonly resolve: (vector: readonly number[]) => void
  readonly reject: (error: CllmError) => void
}

/** The engine's `Embeddings`. */
export const EMBEDDINGS = tokens.token<Embeddings>('Embeddings')

/**
 * Computes embeddings in turn with the engine's steps: one pass between two steps, so that generation never waits for
 * more than one pass, and one pass after the other while nothing is generated. A pass takes as many inputs as the
 * backend allows.
 */
@injectable()
export class Embeddings implements LoopWork {
  readonly #queue: Job[] = []
  /** The number of inputs without an answer, including those being tokenized. */
  #pending = 0
  #pass: Promise<void> | undefined
  /** Whether a step is running or about to start. */
  #isPaused = false
  #closed: CllmError | undefined

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(InputContext) private readonly context: InputContext,
    @inject(AdapterTable) private readonly adapters: AdapterTable,
    @inject(BetweenSteps) private readonly between: BetweenSteps,
  ) {}

  /** Whether inputs have no answer yet. */
  get isBusy(): boolean {
    return this.#pending > 0
  }

  /**
   * The embedding of an input. Throws `unsupported` where the backend has none, and `cancelled` when
   * the signal aborts.
   */
  async embed(input: Prompt, options: EmbedOptions = {}): Promise<Embedding> {
    const adapters = this.adapters.resolve(options.adapters)
    this.between.add(this)
    const release = this.adapters.hold(adapters)
    this.#pending++
    try {
      return await this.#embed(input, adapters, options.signal)
    } finally {
      release()
      // A draining engine waits one more turn, as the client may send its next input when it has this answer.
      // oxlint-disable-next-line no-restricted-globals -- a turn of the event loop; no time is measured
      setImmediate(() => {
        if (--this.#pending === 0) this.between.notify()
      })
    }
  }

  async #embed(input: Prompt, adapters: RequestAdapters, signal?: AbortSignal): Promise<Embedding> {
    const { backend } = this
    if (backend.embed === undefined) {
      throw unsupported('input', 'embeddings', 'this backend has no embeddings')
    }
    const ensureWanted = (): void => {
      if (signal?.aborted === true) throw cancelled()
      if (this.#closed !== undefined) throw this.#closed
    }
    const { tokens, media } = hasMedia(input)
      ? await this.#readMixed(input, signal)
      : { tokens: await resolvePrompt(input, this.context, ensureWanted) }
    ensureWanted()
    let onAbort = (): void => {}
    const vector = new Promise<readonly number[]>((resolve, reject) => {
      const job = { tokens, adapters, resolve, reject, ...defined({ media }) }
      onAbort = () => this.#leave(job)
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#queue.push(job)
      if (!this.#isPaused) this.#next()
    })
    try {
      return { vector: await vector, promptTokens: tokens.length }
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  async #readMixed(input: Prompt, given?: AbortSignal) {
    if (this.backend.media === undefined || this.backend.embedMixed === undefined) {
      throw unsupported(
        'input',
        'media',
        "this model's embeddings are of texts: with files only the last token's can be computed",
      )
    }
    const { context } = this
    // A signal of its own, with an error of ours as its reason.
    const left = new AbortController()
    const leave = (): void => left.abort(cancelled())
    given?.addEventListener('abort', leave, { once: true })
    try {
      const owner = context.ownerOf('', { prompt: input }, context.clock.now(), left.signal)
      return await resolveMedia(input, context, owner)
    } finally {
      given?.removeEventListener('abort', leave)
    }
  }

  /** Starts no more passes, and waits for the running one. */
  pause(): Promise<void> | undefined {
    this.#isPaused = true
    return this.#pass
  }

  resume(): void {
    this.#isPaused = false
    this.#next()
  }

  async onClose(error: CllmError): Promise<void> {
    this.#closed = error
    for (const { reject } of this.#queue.splice(0)) reject(error)
    await this.#pass
  }

  /** The client has left: the input is not computed, or its result is dropped. */
  #leave(job: Job): void {
    const index = this.#queue.indexOf(job)
    if (index !== -1) this.#queue.splice(index, 1)
    job.reject(cancelled())
  }

  #next(): void {
    if (this.#pass !== undefined || this.#queue.length === 0) return
    this.#pass = this.#computeAll(this.#queue.splice(0, this.#countFitting()))
  }

  /** How many inputs from the head of the queue fit into one pass. */
  #countFitting(): number {
    const { contextSize, embeddingTokens = contextSize, embeddingInputs = 1 } = this.backend.limits
    let room = embeddingTokens
    let count = 0
    const [first] = this.#queue
    for (const { tokens, media, adapters } of this.#queue.slice(0, embeddingInputs)) {
      room -= tokens.length
      const isMixed = (media ?? first?.media) !== undefined
      if (room < 0 || isMixed || adapters.key !== first?.adapters.key) break
      count++
    }
    return Math.max(1, count)
  }

  async #computeAll(jobs: readonly Job[]): Promise<void> {
    // A client that leaves releases its adapters, but its input may still be in this pass.
    const releases = jobs.map(({ adapters }) => this.adapters.hold(adapters))
    // If a pass of several inputs fails, each is computed alone, so that only the wrong one fails.
    if (!(await this.#compute(jobs))) {
      for (const job of jobs) await this.#compute([job])
    }
    for (const release of releases) release()
    this.#pass = undefined
    if (!this.#isPaused) this.#next()
  }

  /** Returns false if the pass failed and its inputs must be computed one by one. */
  async #compute(jobs: readonly Job[]): Promise<boolean> {
    try {
      const { applied = [] } = jobs[0]?.adapters ?? {}
      const vectors = await embed(this.backend, jobs, applied)
      for (const [index, { resolve }] of jobs.entries()) resolve(vectors[index]!)
    } catch (error) {
      if (jobs.length > 1) return false
      for (const { reject } of jobs) reject(CllmError.from(error, 'backend_failed'))
    }
    return true
  }
}
