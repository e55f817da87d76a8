import type { Backend } from '../contracts/backend.js'
import type { Clock, Random } from '../contracts/clock.js'
import type { GenerateRequest } from '../contracts/engine-client.js'
import type { Tokenizer } from '../contracts/tokenizer.js'
import { CllmError } from '../errors/cllm-error.js'
import type { EngineOptions } from './engine-options.js'
import { resolveRequest } from './resolve-request.js'
import type { Outbox } from './outbox.js'
import type { Roster } from './roster.js'
import { Sequence } from './sequence.js'

/** The door: turns requests that may come in into sequences, and refuses the others. */
export class Intake {
  isOpen = true

  constructor(
    private readonly roster: Roster,
    private readonly outbox: Outbox,
    private readonly backend: Backend,
    private readonly tokenizer: Tokenizer,
    private readonly clock: Clock,
    private readonly random: Random,
    private readonly options: EngineOptions,
  ) {}

  /** Throws what the client is to know. */
  take(id: string, request: GenerateRequest): Sequence {
    this.#refuseUnlessOpen(id)
    const now = this.clock.now()
    const { tokenizer, random, options, roster } = this
    const context = { tokenizer, limits: this.backend.limits, random, options, now }
    const resolved = resolveRequest(id, request, context)
    return new Sequence(resolved, now, (sequence) => roster.slots.lookUp(sequence))
  }

  #refuseUnlessOpen(id: string): void {
    if (!this.isOpen) throw new CllmError('shutting_down', 'The engine takes no new requests')
    if (this.roster.find(id) !== undefined || this.outbox.owes(id)) {
      throw new CllmError('duplicate_request', `A request with the id "${id}" is under way`)
    }
    const limit = this.options.maxQueuedRequests
    if (this.roster.waiting.total < limit) return
    throw new CllmError('queue_full', `${limit} requests are waiting, which is the limit`)
  }
}
