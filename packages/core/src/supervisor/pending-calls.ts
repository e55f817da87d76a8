import { CllmError } from '../errors/cllm-error.js'
import type { Call, FromEngine } from '../remote/channel.js'
import type { EngineCallName } from '../remote/engine-calls.js'

type Answer = FromEngine & { readonly type: 'result' | 'error' }

/** Calls with the same answer from any engine: they wait for the next one. */
const patient: ReadonlySet<EngineCallName> = new Set([
  'tokenize',
  'detokenize',
  'pieces',
  'applyTemplate',
  'embed',
  'setScheduler',
])

/** Calls that may wait for a forward pass, or a long one. */
const slow: ReadonlySet<EngineCallName> = new Set(['embed', 'loadAdapter', 'close'])

/** Calls that wait for as long as a request runs in a slot, and for a file: that may be long. */
const endless: ReadonlySet<EngineCallName> = new Set(['slotAction'])

/** Whether a message answers a call. */
export const isAnswer = (message: FromEngine): message is Answer =>
  message.type === 'result' || message.type === 'error'

/** Pending calls: some can wait for the next engine, the others fail with this one. */
export class PendingCalls {
  readonly #open = new Map<number, { readonly call: Call; deaths: number }>()
  #quick = 0
  #endless = 0
  #embeddings = 0
  /** The policy that was set last. */
  #policy: readonly unknown[] | undefined

  /** Whether a call is pending that an engine answers within a time that can be told. */
  get isOwed(): boolean {
    return this.#open.size > this.#endless
  }

  /** Whether a call is pending that needs no forward pass. */
  get isPreparing(): boolean {
    return this.#quick > 0
  }

  /** Whether an embedding is pending: a drain waits for it. */
  get isEmbedding(): boolean {
    return this.#embeddings > 0
  }

  /** Takes a call; returns its answer when there is no engine and it cannot wait for one. */
  take(call: Call, isUp: boolean): Answer | undefined {
    if (!isUp && !patient.has(call.name)) return unavailable(call)
    this.#open.set(call.call, { call, deaths: 0 })
    this.#count(call, 1)
    return undefined
  }

  /** The client abandoned the call: it is not repeated on another engine. */
  onLeave(call: number): void {
    this.#remove(call)
  }

  /** An answer came; false when no client waits for it. */
  onAnswer({ type, call }: Answer): boolean {
    const open = this.#open.get(call)
    if (open === undefined) return false
    this.#remove(call)
    if (type === 'result' && open.call.name === 'setScheduler') this.#policy = open.call.arguments
    return true
  }

  /** The first calls to the next engine: the active policy, then the calls that could wait. */
  *resume(): Iterable<Call> {
    const name = 'setScheduler'
    if (this.#policy !== undefined) yield { type: 'call', call: -1, name, arguments: this.#policy }
    for (const { call } of this.#open.values()) yield call
  }

  /** The engine exited. Returns the failures of calls that cannot wait, or may have crashed it twice. */
  onExit(): Answer[] {
    const failed: Answer[] = []
    for (const [id, open] of this.#open) {
      if (patient.has(open.call.name) && ++open.deaths < 2) continue
      this.#remove(id)
      failed.push(unavailable(open.call))
    }
    return failed
  }

  #remove(id: number): void {
    const open = this.#open.get(id)
    if (open === undefined || !this.#open.delete(id)) return
    this.#count(open.call, -1)
  }

  #count({ name }: Call, change: 1 | -1): void {
    if (endless.has(name)) this.#endless += change
    else if (!slow.has(name)) this.#quick += change
    if (name === 'embed') this.#embeddings += change
  }
}

function unavailable({ call }: Call): Answer {
  const error = new CllmError('engine_unavailable', 'The engine stopped and is being restarted')
  return { type: 'error', call, error: error.serialize() }
}
