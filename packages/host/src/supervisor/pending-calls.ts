import { CllmError } from '@cllm/core'
import type { Call, FromEngine } from '../remote/channel.js'
import { traitsOf } from '../remote/engine-calls.js'

type Answer = FromEngine & { readonly type: 'result' | 'error' }

interface PendingCall {
  readonly call: Call
  /** An engine crashed while it had this call: the next one gets it alone. */
  isSuspect: boolean
}

/** Whether a message answers a call. */
export const isAnswer = (message: FromEngine): message is Answer =>
  message.type === 'result' || message.type === 'error'

/**
 * Pending calls: some can wait for the next engine, the others fail with this one. Calls that an engine had
 * when it crashed are suspects, as requests are: the next engine gets them one at a time and before
 * anything else, and the call that crashes it while it is alone fails with `engine_crashed`.
 */
export class PendingCalls {
  /** Calls that no engine has. */
  readonly #held = new Map<number, PendingCall>()
  /** Calls that the engine has. */
  readonly #sent = new Map<number, PendingCall>()
  #alone: PendingCall | undefined
  #suspects = 0
  #embeddings = 0
  /** Calls that the engine has by what they take. */
  readonly #counts = { nothing: 0, pass: 0, request: 0 }
  /** The policy that was set last. */
  #policy: readonly unknown[] | undefined

  /** Whether the engine has a call that it answers within a time that can be told. */
  get isOwed(): boolean {
    return this.#sent.size > this.#counts.request
  }

  /** Whether the engine has a call that needs no forward pass. */
  get isPreparing(): boolean {
    return this.#counts.nothing > 0
  }

  /** Whether an embedding is pending: a drain waits for it. */
  get isEmbedding(): boolean {
    return this.#embeddings > 0
  }

  /** Whether a call is to be alone on the engine, or is. */
  get hasSuspects(): boolean {
    return this.#suspects > 0
  }

  /** Adds a call; returns its answer when there is no engine and it cannot wait for one. */
  add(call: Call, isUp: boolean): Answer | undefined {
    const { patient = false } = traitsOf(call.name)
    if (!isUp && !patient) return unavailable(call)
    this.#held.set(call.call, { call, isSuspect: false })
    if (call.name === 'embed') this.#embeddings++
    return undefined
  }

  /** The call that sets the next engine's policy, if one was set. */
  policy(): Call | undefined {
    if (this.#policy === undefined) return undefined
    return { type: 'call', call: -1, name: 'setScheduler', arguments: this.#policy }
  }

  /**
   * Takes the calls that the engine gets now, in order.
   *
   * @param isReserved a request is to be alone on the engine: it gets no input of clients besides
   */
  *take(isReserved: boolean): Iterable<Call> {
    for (const pending of this.#held.values()) {
      const { hasInput = false } = traitsOf(pending.call.name)
      if (hasInput && (this.#alone !== undefined || (isReserved && !this.hasSuspects))) continue
      if (hasInput && this.hasSuspects) {
        if (!pending.isSuspect) continue
        this.#alone = pending
      }
      this.#held.delete(pending.call.call)
      this.#sent.set(pending.call.call, pending)
      this.#count(pending, 1)
      yield pending.call
    }
  }

  /** The client abandoned the call: no further engine gets it. */
  onLeave(call: number): void {
    this.#remove(call)
  }

  /** An answer came; false when no client waits for it. */
  onAnswer({ type, call }: Answer): boolean {
    const pending = this.#remove(call)
    if (pending === undefined) return false
    if (type === 'result' && pending.call.name === 'setScheduler') {
      this.#policy = pending.call.arguments
    }
    return true
  }

  /** The engine exited. Returns the failures of calls that cannot wait, and of the one that crashed it alone. */
  onExit(): Answer[] {
    const failed: Answer[] = []
    const alone = this.#alone
    const sent = [...this.#sent]
    for (const [id, pending] of [...sent, ...this.#held]) {
      const { patient = false } = traitsOf(pending.call.name)
      if (patient && pending !== alone) continue
      this.#remove(id)
      failed.push(pending === alone ? crashed(pending.call) : unavailable(pending.call))
    }
    const waiting = [...this.#held]
    this.#held.clear()
    for (const [id, pending] of sent) {
      if (!this.#sent.delete(id)) continue
      this.#count(pending, -1)
      if (!pending.isSuspect) this.#suspects++
      pending.isSuspect = true
      this.#held.set(id, pending)
    }
    for (const [id, pending] of waiting) this.#held.set(id, pending)
    return failed
  }

  #remove(id: number): PendingCall | undefined {
    const sent = this.#sent.get(id)
    const pending = sent ?? this.#held.get(id)
    if (pending === undefined) return undefined
    this.#sent.delete(id)
    this.#held.delete(id)
    if (sent !== undefined) this.#count(pending, -1)
    if (pending.isSuspect) this.#suspects--
    if (this.#alone === pending) this.#alone = undefined
    if (pending.call.name === 'embed') this.#embeddings--
    return pending
  }

  #count({ call }: PendingCall, change: 1 | -1): void {
    this.#counts[traitsOf(call.name).takes ?? 'nothing'] += change
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
