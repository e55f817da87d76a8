import { type AddressedEvent, CllmError, failureOf } from '@cllm/core'
import { InFlightRequest } from '../fleet/in-flight-request.js'
import type { Waiting } from '../fleet/waiting.js'
import type { Call, FromEngine, Submission } from '../remote/channel.js'
import { callTraits } from '../remote/engine-calls.js'

/**
 * What the engine does with a request or a call: no engine has it (`held`), it is checked and its prompt is
 * tokenized (`checking`), it waits for others (`waiting`), its sampler is made (`preparing`), or its
 * forward passes are computed (`running`).
 */
type Phase = 'held' | 'checking' | 'waiting' | 'preparing' | 'running'

/** A request of one engine, which may be replaced. */
export class EngineRequest extends InFlightRequest {
  phase: Phase = 'held'
  /** Whether it must run alone on the next engine. */
  isSuspect = false
}

/** A call that an engine has or is to get. */
interface PendingCall {
  readonly call: Call
  phase: Phase
  isSuspect: boolean
}

/** A result or a failure of a call. */
type Answer = FromEngine & { readonly type: 'result' | 'error' }

/** The kinds of work that an engine owes. */
export interface Debts {
  /** It has a request. */
  readonly steps: boolean
  /** It has a call whose answer takes a foreseeable time. */
  readonly answers: boolean
  /** It has a request or a call in a phase without forward passes. */
  readonly preparation: boolean
}

const phaseOfCall = { pass: 'running', request: 'waiting' } as const

/**
 * The requests and calls of one engine that is replaced when it crashes.
 *
 * When an engine crashes, the calls that it had and the requests without a sampled token (being checked,
 * tokenized, compiled or computed for the first time) are suspects; after a second crash, so are the requests
 * in its batch. Suspects run one at a time and before all others, calls first, which separates what crashes
 * the engine from what only ran beside it.
 */
export class EngineWork {
  readonly #requests = new Map<string, EngineRequest>()
  /** In order of arrival. */
  readonly requests: ReadonlyMap<string, EngineRequest> = this.#requests
  /** Requests in each phase: a message of the engine must not cost a loop over all that wait. */
  readonly #counts = { held: 0, checking: 0, waiting: 0, preparing: 0, running: 0 }
  readonly #calls = new Map<number, PendingCall>()
  /** The suspect that runs, or is to run, alone on the engine. */
  #alone: EngineRequest | PendingCall | undefined
  /** Whether there may be suspects: an engine has crashed. */
  #hasCrashed = false
  /** The call that sets the next engine's policy, if one was set. */
  policy: Call | undefined

  /** @param waiting is told of requests that no engine has */
  constructor(private readonly waiting: Pick<Waiting<EngineRequest>, 'add' | 'delete'>) {}

  /** Whether there are requests that no engine has. */
  get isHolding(): boolean {
    return this.#counts.held > 0
  }

  /**
   * Adds a request; returns its submission if the engine gets it at once, without waiting.
   *
   * @param isUp - whether there is an engine
   */
  add(entry: EngineRequest, isUp: boolean): Submission | undefined {
    const isNext = isUp && this.#counts.held === 0 && this.#alone === undefined
    entry.phase = isNext ? 'checking' : 'held'
    this.#requests.set(entry.id, entry)
    this.#counts[entry.phase]++
    if (!isNext) this.waiting.add(entry)
    return isNext ? { type: 'submit', id: entry.id, request: entry.request } : undefined
  }

  /** Moves a request to another phase. */
  move(entry: EngineRequest, phase: Phase): void {
    if (entry.phase === 'held') this.waiting.delete(entry)
    this.#counts[entry.phase]--
    entry.phase = phase
    this.#counts[phase]++
    if (phase === 'held') this.waiting.add(entry)
  }

  /** Adds a call; returns its failure when there is no engine and it cannot wait for one. */
  addCall(call: Call, isUp: boolean): Answer | undefined {
    if (!isUp && callTraits[call.name].patient !== true) return unavailable(call)
    this.#calls.set(call.call, { call, phase: 'held', isSuspect: false })
    return undefined
  }

  /**
   * Yields what the engine gets now, in order. Calls without a client's data cannot crash it: they are sent at any
   * time.
   */
  *take(now: number): Iterable<Submission | Call> {
    if (this.#hasCrashed) this.#alone ??= this.#nextSuspect()
    for (const pending of this.#calls.values()) {
      if (pending.phase !== 'held') continue
      const { takes, hasInput = false } = callTraits[pending.call.name]
      if (hasInput && this.#alone !== undefined && this.#alone !== pending) continue
      pending.phase = takes === undefined ? 'preparing' : phaseOfCall[takes]
      yield pending.call
    }
    if (this.#counts.held === 0) return
    for (const entry of this.requests.values()) {
      if (entry.phase !== 'held') continue
      if (this.#alone !== undefined && this.#alone !== entry) continue
      this.move(entry, 'checking')
      yield { type: 'submit', id: entry.id, request: entry.continuedAt(now) }
    }
  }

  /** Records events from the engine; returns the events that the client does not have yet. */
  onEvents(events: readonly AddressedEvent[], now: number): readonly AddressedEvent[] {
    const fresh: AddressedEvent[] = []
    for (const addressed of events) {
      const { id, event } = addressed
      const entry = this.requests.get(id)
      if (entry?.take(event, now) ?? true) fresh.push(addressed)
      if (entry === undefined || event.type === 'progress') continue
      if (event.type === 'start') this.move(entry, 'waiting')
      else if (event.type !== 'token') this.remove(entry)
      else if (entry.isSuspect && entry.deaths <= 1) {
        // The first token shows that another request crashed the engine; after two crashes it stays alone.
        entry.isSuspect = false
        if (this.#alone === entry) this.#alone = undefined
      }
    }
    return fresh
  }

  /** An answer came; returns its call, undefined if no client waits for it. */
  onAnswer({ type, call: number }: Answer): Call | undefined {
    const call = this.removeCall(number)?.call
    if (type === 'result' && call?.name === 'setScheduler') this.policy = { ...call, call: -1 }
    return call
  }

  /** Takes out a request that has ended. */
  remove(entry: EngineRequest): void {
    if (this.#requests.delete(entry.id)) this.#counts[entry.phase]--
    if (entry.phase === 'held') this.waiting.delete(entry)
    if (this.#alone === entry) this.#alone = undefined
  }

  /** Takes out a call that has its answer, or whose client has left: no further engine gets it. */
  removeCall(call: number): PendingCall | undefined {
    const pending = this.#calls.get(call)
    this.#calls.delete(call)
    if (this.#alone === pending) this.#alone = undefined
    return pending
  }

  /**
   * The engine exited: all is held for the next one. Takes out calls that cannot wait, requests whose clients
   * have left, and what crashed the engine while it was alone; returns their failures.
   */
  onExit(why: string): FromEngine[] {
    const alone = this.#alone
    this.#alone = undefined
    this.#hasCrashed = true
    const failures: FromEngine[] = []
    for (const pending of this.#calls.values()) {
      const { call, phase } = pending
      if (pending !== alone && callTraits[call.name].patient === true) {
        pending.isSuspect ||= phase !== 'held'
        pending.phase = 'held'
        continue
      }
      this.#calls.delete(call.call)
      failures.push(pending === alone ? crashed(call) : unavailable(call))
    }
    if (alone instanceof EngineRequest && (!alone.isProven || alone.deaths > 1)) {
      const message = `The engine crashed while running this request alone: ${why}`
      failures.push(this.fail(alone, new CllmError('engine_crashed', message)))
    }
    const submitted = [...this.requests.values()].filter(({ phase }) => phase !== 'held')
    const touched = submitted.filter(({ phase }) => phase !== 'waiting')
    // The engine's last message may be lost: then any of its requests may have crashed it.
    for (const entry of touched.length > 0 ? touched : submitted) {
      entry.deaths++
      entry.isSuspect ||= !entry.isProven || entry.deaths > 1
    }
    for (const entry of submitted) {
      entry.isProven = false
      this.move(entry, 'held')
    }
    for (const entry of this.requests.values()) {
      const { cancelReason } = entry
      if (cancelReason === undefined) continue
      failures.push(this.fail(entry, new CllmError('cancelled', cancelReason)))
    }
    return failures
  }

  /** Takes out a request that fails; returns what its client is told. */
  fail(entry: EngineRequest, error: CllmError): FromEngine {
    this.remove(entry)
    return { type: 'events', events: [{ id: entry.id, event: failureOf(error) }] }
  }

  /** What the engine owes. */
  debts(): Debts {
    const { held, checking, preparing } = this.#counts
    let [answers, preparation] = [false, checking + preparing > 0]
    for (const { phase } of this.#calls.values()) {
      answers ||= phase === 'running' || phase === 'preparing'
      preparation ||= phase === 'preparing'
    }
    return { steps: this.requests.size > held, answers, preparation }
  }

  #nextSuspect(): EngineRequest | PendingCall | undefined {
    for (const pending of this.#calls.values()) if (pending.isSuspect) return pending
    // A suspect that does not run alone is held.
    if (this.#counts.held === 0) return undefined
    for (const entry of this.requests.values()) if (entry.isSuspect) return entry
    return undefined
  }
}

function unavailable({ call }: Call): Answer {
  const error = new CllmError('engine_unavailable', 'The engine stopped and is being restarted')
  return { type: 'error', call, error: error.serialize() }
}

function crashed({ call, name }: Call): Answer {
  const message = `The engine crashed while it answered this call alone: ${name}`
  return { type: 'error', call, error: new CllmError('engine_crashed', message).serialize() }
}
