import type { EngineCalls } from '../contracts/engine/engine-client.js'
import { CllmError } from '../errors/cllm-error.js'

/** The names of all calls; forwarding clients and hosts are derived from this table. */
export const engineCalls = [
  'tokenize',
  'detokenize',
  'pieces',
  'embed',
  'applyTemplate',
  'info',
  'statistics',
  'activity',
  'explain',
  'slotAction',
  'cache',
  'adapters',
  'loadAdapter',
  'unloadAdapter',
  'getScheduler',
  'setScheduler',
  'noteService',
  'drain',
  'close',
] as const satisfies readonly (keyof EngineCalls)[]

/** The name of a call; `recordingParts` is one to a worker of a cluster alone. */
export type EngineCallName = keyof EngineCalls | 'recordingParts'

/** Throws `internal` if there is no such call. */
export function assertEngineCall(name: string): asserts name is keyof EngineCalls {
  if ((engineCalls as readonly string[]).includes(name)) return
  throw new CllmError(
    'internal',
    `Expected one of ${engineCalls.join(', ')}, instead got "${name}"`,
  )
}

/** Whether a call can be abandoned: its last argument may be options with a signal. */
export const takesSignal = (name: EngineCallName): boolean =>
  name === 'embed' || name === 'tokenize'

/** The arguments of a call that came from elsewhere, with a signal where it takes one. */
export function withSignal(
  name: EngineCallName,
  given: readonly unknown[],
  signal: AbortSignal,
): unknown[] {
  if (!takesSignal(name)) return [...given]
  const [first, options] = given
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
