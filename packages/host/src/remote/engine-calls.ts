import { type EngineCalls, CllmError } from '@cllm/core'
import type { Call, EngineMessage, EngineCallName } from './channel.js'
import { noRecorder } from '../recorder/write-recording.js'

/** How a call is made to an engine in another process. */
interface CallTraits {
  /** Its second argument may be options with a signal: it can be abandoned. */
  readonly takesSignal?: true
  /** Any engine gives the same answer, so without an engine the call waits for the next one. */
  readonly patient?: true
  /** It hands the engine a client's data, which may crash it. */
  readonly hasInput?: true
  /** What the answer waits for: work as long as a forward pass, or the end of a request. Default: neither. */
  readonly takes?: 'pass' | 'request'
}

/** All calls with their traits; forwarding clients and hosts are derived from this table. */
export const callTraits: Readonly<Record<EngineCallName, CallTraits>> = {
  tokenize: { takesSignal: true, patient: true, hasInput: true },
  detokenize: { patient: true, hasInput: true },
  pieces: { patient: true, hasInput: true },
  embed: { takesSignal: true, patient: true, hasInput: true, takes: 'pass' },
  applyTemplate: { patient: true, hasInput: true },
  info: {},
  statistics: {},
  activity: {},
  explain: {},
  slotAction: { hasInput: true, takes: 'request' },
  cache: {},
  programs: {},
  adapters: {},
  loadAdapter: { hasInput: true, takes: 'pass' },
  unloadAdapter: {},
  getScheduler: {},
  setScheduler: { patient: true, hasInput: true },
  noteService: {},
  drain: {},
  close: { takes: 'pass' },
  recordingParts: {},
}

/** The calls of every engine. */
export const engineCalls = (Object.keys(callTraits) as EngineCallName[]).filter(
  (name) => name !== 'recordingParts',
)

/** The arguments of a call with the signal that ends it, where the call takes one. */
function withSignal(name: EngineCallName, values: readonly unknown[], signal: AbortSignal) {
  if (callTraits[name].takesSignal !== true) return [...values]
  const [first, options] = values
  return [first, { ...(options as object | undefined), signal }]
}

/**
 * A client that forwards all calls through `forward`: it has a method for each entry of the table of
 * calls. `submit` and `cancel` are left to the client.
 */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging -- the methods are made below
export abstract class CallForwarder {
  /** Makes the call of this name elsewhere; resolves and rejects as the method does. */
  protected abstract forward(name: keyof EngineCalls, values: readonly unknown[]): Promise<unknown>
}

export interface CallForwarder extends EngineCalls {}

for (const name of engineCalls) {
  Object.defineProperty(CallForwarder.prototype, name, {
    configurable: true,
    writable: true,
    async value(this: { forward: CallForwarder['forward'] }, ...values: unknown[]) {
      return await this.forward(name, values)
    },
  })
}

/** The answer to a call. */
export type CallAnswer = EngineMessage & { readonly type: 'result' | 'error' }

type Method = (...values: readonly unknown[]) => Promise<unknown>

/** Makes the calls that come over a channel, and answers each. */
export class CallServer {
  readonly #open = new Map<number, AbortController>()

  /**
   * @param target has a method for each call
   * @param answer sends an answer; if it throws for a result, the error is sent instead
   * @param check throws for calls that are refused; default: none is
   */
  constructor(
    private readonly target: object,
    private readonly answer: (answer: CallAnswer) => void,
    private readonly check: (call: Call) => void = () => {},
  ) {}

  /** Makes a call; its answer is sent when it has one. */
  async make(message: Call): Promise<void> {
    const { call, name } = message
    const controller = new AbortController()
    this.#open.set(call, controller)
    try {
      this.check(message)
      if (!Object.hasOwn(callTraits, name)) throw unknownCall(name)
      const method = (this.target as Partial<Record<string, Method>>)[name]
      if (method === undefined) throw noRecorder()
      const given = withSignal(name, message.arguments, controller.signal)
      this.answer({ type: 'result', call, value: await method.apply(this.target, given) })
    } catch (error) {
      this.answer({ type: 'error', call, error: CllmError.from(error).serialize() })
    } finally {
      this.#open.delete(call)
    }
  }

  /** Aborts a call whose answer nobody waits for. */
  leave(call: number): void {
    this.#open.get(call)?.abort()
  }

  /** Aborts all calls. */
  leaveAll(reason: CllmError): void {
    for (const controller of this.#open.values()) controller.abort(reason)
  }
}

const unknownCall = (name: string): CllmError =>
  new CllmError('internal', `Expected one of ${engineCalls.join(', ')}, instead got "${name}"`)
