import type { Backend } from '../contracts/backend.js'
import type { Clock, Random } from '../contracts/clock.js'
import type { GenerateRequest } from '../contracts/engine-client.js'
import type { TokenId, Tokenizer } from '../contracts/tokenizer.js'
import { CllmError } from '../errors/cllm-error.js'
import { Admission } from './admission.js'
import type { EngineOptions } from './engine-options.js'
import { resolvePrompt } from './resolve-prompt.js'
import { resolveRequest } from './resolve-request.js'
import type { Outbox } from './outbox.js'
import type { Roster } from './roster.js'
import { Sequence } from './sequence.js'

/** Whom requests are taken in for. */
export interface Household {
  readonly backend: Backend
  readonly tokenizer: Tokenizer
  accept(sequence: Sequence): void
  refuse(id: string, error: CllmError): void
}

/** The porter: turns requests that may come in into sequences, and refuses the others. */
export class Intake {
  isOpen = true
  /** Requests whose prompts are being tokenized, with what ended that, if anything did. */
  readonly #reading = new Map<string, CllmError | undefined>()

  /** Requests whose id belongs to one that has ended and is about to leave. */
  readonly #following = new Map<string, GenerateRequest>()

  readonly #admission: Admission

  constructor(
    private readonly household: Household,
    private readonly roster: Roster,
    private readonly outbox: Outbox,
    private readonly clock: Clock,
    private readonly random: Random,
    private readonly options: EngineOptions,
  ) {
    roster.onRemoved = (id) => this.#follow(id)
    this.#admission = new Admission(roster, options)
  }

  /** Whether long prompts are being tokenized. */
  get isReading(): boolean {
    return this.#reading.size > 0
  }

  /** Takes a request in at once, or, with a long prompt, a little later. */
  take(id: string, request: GenerateRequest): void {
    if (this.roster.find(id)?.hasEnded === true && !this.#following.has(id)) {
      this.#following.set(id, request)
      return
    }
    const now = this.clock.now() - (request.continued?.elapsedMs ?? 0)
    const { random, options, roster } = this
    const { tokenizer, backend } = this.household
    const context = { backend, tokenizer, limits: backend.limits, random, options, now }
    const lookUp = (sequence: Sequence): number => roster.slots.lookUp(sequence)
    try {
      this.#refuseUnlessOpen(id, request)
      const complete = resolveRequest(id, request, context)
      const prompt = resolvePrompt(request.prompt, context, () => this.#ensureWanted(id))
      const accept = (tokens: TokenId[]): void =>
        this.#accept(new Sequence(complete(tokens), tokens, now, lookUp))
      if (prompt instanceof Promise) void this.#await(id, prompt, accept)
      else accept(prompt)
    } catch (error) {
      this.household.refuse(id, CllmError.from(error))
    }
  }

  /** Ends a request that is not in the roster yet, if there is one, with this error. */
  giveUp(id: string, error: CllmError): boolean {
    if (this.#following.delete(id)) {
      this.household.refuse(id, error)
      return true
    }
    const isReading = this.#reading.has(id)
    if (isReading) this.#reading.set(id, error)
    return isReading
  }

  /** Takes nothing more, and ends all tokenizing. */
  close(error: CllmError): void {
    this.isOpen = false
    for (const id of this.#reading.keys()) this.giveUp(id, error)
  }

  #follow(id: string): void {
    const request = this.#following.get(id)
    if (request !== undefined && this.#following.delete(id)) this.take(id, request)
  }

  async #await(
    id: string,
    prompt: Promise<TokenId[]>,
    accept: (prompt: TokenId[]) => void,
  ): Promise<void> {
    this.#reading.set(id, undefined)
    let error: unknown
    const tokens = await prompt.catch((reason: unknown) => void (error = reason))
    this.#reading.delete(id)
    try {
      if (tokens === undefined) throw error
      accept(tokens)
    } catch (reason) {
      this.household.refuse(id, CllmError.from(reason))
    }
  }

  #accept(sequence: Sequence): void {
    const now = this.clock.now()
    sequence.forecast = this.roster.forecaster.forecast(sequence, now)
    if (sequence.request.continued === undefined) this.#admission.check(sequence, now)
    this.household.accept(sequence)
  }

  #ensureWanted(id: string): void {
    const error = this.#reading.get(id)
    if (error !== undefined) throw error
  }

  #refuseUnlessOpen(id: string, { continued }: GenerateRequest): void {
    if (!this.isOpen) throw new CllmError('shutting_down', 'The engine takes no new requests')
    if (this.#reading.has(id) || this.roster.find(id) !== undefined || this.outbox.owes(id)) {
      throw new CllmError('duplicate_request', `A request with the id "${id}" is under way`)
    }
    if (continued === undefined) this.#admission.checkCount(this.#reading.size, this.clock.now())
  }
}
