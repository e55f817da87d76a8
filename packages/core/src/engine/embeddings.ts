import { inject, injectable } from 'tsyringe'
import type { Backend } from '../contracts/model/backend.js'
import type { Embedding, Prompt } from '../contracts/engine/engine-client.js'
import type { TokenId, Tokenizer } from '../contracts/model/tokenizer.js'
import { CllmError } from '../errors/cllm-error.js'
import * as tokens from '../tokens.js'
import { PartQueue } from './input/part-queue.js'
import { resolvePrompt } from './input/resolve-prompt.js'

interface Job {
  readonly tokens: readonly TokenId[]
  readonly resolve: (vector: readonly number[]) => void
  readonly reject: (error: CllmError) => void
}

/**
 * Computes embeddings in turn with the engine's steps: one input between two steps, so that
 * generation never waits for more than one, and one after the other while nothing is generated.
 */
@injectable()
export class Embeddings {
  readonly #queue: Job[] = []
  #pass: Promise<void> | undefined
  #isStepping = false
  #stepIsDue = false
  #closed: CllmError | undefined

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.TOKENIZER) private readonly tokenizer: Tokenizer,
    @inject(PartQueue) private readonly parts: PartQueue,
  ) {}

  /** Whether an input is being computed. */
  get isBusy(): boolean {
    return this.#pass !== undefined
  }

  /**
   * The embedding of an input. Throws `unsupported` where the backend has none, and `cancelled` when
   * the signal aborts.
   */
  async embed(input: Prompt, signal?: AbortSignal): Promise<Embedding> {
    const { backend, tokenizer, parts } = this
    if (!backend.capabilities.embeddings || backend.embed === undefined) {
      throw new CllmError('unsupported', 'This backend has no embeddings', {
        details: { field: 'input', capability: 'embeddings' },
      })
    }
    const ensureWanted = (): void => {
      if (signal?.aborted === true) throw cancelled()
      if (this.#closed !== undefined) throw this.#closed
    }
    const context = { tokenizer, parts, limits: backend.limits }
    const tokens = await resolvePrompt(input, context, ensureWanted)
    ensureWanted()
    let onAbort = (): void => {}
    const vector = new Promise<readonly number[]>((resolve, reject) => {
      if (this.#closed !== undefined) throw this.#closed
      const job = { tokens, resolve, reject }
      onAbort = () => this.#leave(job)
      signal?.addEventListener('abort', onAbort, { once: true })
      this.#queue.push(job)
      if (!this.#isStepping && !this.#stepIsDue) this.#next()
    })
    try {
      return { vector: await vector, promptTokens: tokens.length }
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /** Waits for the input that is being computed; a step comes before the next one. */
  async beforeStep(): Promise<void> {
    this.#stepIsDue = true
    await this.#pass
    this.#stepIsDue = false
  }

  /** Runs a step, and begins the next input when it is over. */
  async during<Result>(step: Promise<Result>): Promise<Result> {
    this.#isStepping = true
    try {
      return await step
    } finally {
      this.#isStepping = false
      this.#next()
    }
  }

  /** Ends what waits with this error, and resolves when nothing is computed any more. */
  async close(error: CllmError): Promise<void> {
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
    if (this.#pass !== undefined) return
    const job = this.#queue.shift()
    if (job !== undefined) this.#pass = this.#compute(job)
  }

  async #compute({ tokens: input, resolve, reject }: Job): Promise<void> {
    try {
      resolve((await this.backend.embed?.(input)) ?? [])
    } catch (error) {
      reject(CllmError.from(error, 'backend_failed'))
    }
    this.#pass = undefined
    if (!this.#isStepping && !this.#stepIsDue) this.#next()
  }
}

const cancelled = (): CllmError => new CllmError('cancelled', 'The request was cancelled')
