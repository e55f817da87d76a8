import { CllmError } from '../errors/cllm-error.js'
import type { FromEngine, ToEngine } from './channel.js'
import type { EngineCallName } from './engine-control.js'

type Call = ToEngine & { readonly type: 'call' }
type Answer = FromEngine & { readonly type: 'result' | 'error' }

/** Calls that give the same whichever engine answers: they wait for the next one. */
const patient: ReadonlySet<EngineCallName> = new Set([
  'tokenize',
  'detokenize',
  'applyTemplate',
  'embed',
  'setScheduler',
])

/** The calls under way: those that can wait for the next engine, and those that fail with this one. */
export class CallDesk {
  readonly #open = new Map<number, { readonly call: Call; deaths: number }>()
  /** The policy that was set last. */
  #policy: readonly unknown[] | undefined

  get size(): number {
    return this.#open.size
  }

  /** Takes a call; returns its answer when there is no engine and it cannot wait for one. */
  take(call: Call, isUp: boolean): Answer | undefined {
    if (!isUp && !patient.has(call.name)) return unavailable(call)
    this.#open.set(call.call, { call, deaths: 0 })
    return undefined
  }

  /** Nobody waits for its answer any more. */
  left(call: number): void {
    this.#open.delete(call)
  }

  /** An answer came; false when it is to a call of ours. */
  answered({ type, call }: Answer): boolean {
    const open = this.#open.get(call)
    if (open === undefined) return false
    this.#open.delete(call)
    if (type === 'result' && open.call.name === 'setScheduler') this.#policy = open.call.arguments
    return true
  }

  /** What the next engine is asked first: the policy that was in force, and what could wait. */
  *resume(): Iterable<Call> {
    const name = 'setScheduler'
    if (this.#policy !== undefined) yield { type: 'call', call: -1, name, arguments: this.#policy }
    for (const { call } of this.#open.values()) yield call
  }

  /** The engine died. Returns the answers of calls that cannot wait, or may have killed it twice. */
  died(): Answer[] {
    const failed: Answer[] = []
    for (const [id, open] of this.#open) {
      if (patient.has(open.call.name) && ++open.deaths < 2) continue
      this.#open.delete(id)
      failed.push(unavailable(open.call))
    }
    return failed
  }
}

function unavailable({ call }: Call): Answer {
  const error = new CllmError('engine_unavailable', 'The engine died and is being restarted')
  return { type: 'error', call, error: error.serialize() }
}
