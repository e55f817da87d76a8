import { CllmError } from '@cllm/core'
import type { Call, EngineMessage } from './channel.js'
import { noRecorder } from '../recorder/write-recording.js'
import { assertEngineCall, withSignal } from './engine-calls.js'

/** The answer to a call. */
export type CallAnswer = EngineMessage & { readonly type: 'result' | 'error' }

type Method = (...values: readonly unknown[]) => Promise<unknown>

/** Makes the calls that come over a channel, and answers each. */
export class CallServer {
  readonly #open = new Map<number, AbortController>()

  /**
   * @param target has a method for each call
   * @param answer sends an answer; where it throws for a result, that is the answer
   * @param check throws for calls that are not to be made; default: all are
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
      if (name !== 'recordingParts') assertEngineCall(name)
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

  /** Nobody waits for its answer. */
  leave(call: number): void {
    this.#open.get(call)?.abort()
  }

  /** Nobody waits for any answer. */
  leaveAll(reason: CllmError): void {
    for (const controller of this.#open.values()) controller.abort(reason)
  }
}
