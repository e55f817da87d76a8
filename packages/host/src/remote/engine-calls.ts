import { type EngineCalls, CllmError } from '@cllm/core'

/** How a call is made to an engine in another process. */
export interface CallTraits {
  /** Its second argument may be options with a signal: it can be abandoned. */
  readonly takesSignal?: true
  /** Any engine gives the same answer: it waits for the next one. */
  readonly patient?: true
  /** It hands the engine a client's data, which may crash it. */
  readonly hasInput?: true
  /** What its answer waits for: a forward pass or as much, or the end of a request. Default: for neither. */
  readonly takes?: 'pass' | 'request'
}

/** All calls with their traits; forwarding clients and hosts are derived from this table. */
export const engineCalls = {
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
} as const satisfies Record<keyof EngineCalls, CallTraits>

/** The name of a call; `recordingParts` is one to a worker of a cluster alone. */
export type EngineCallName = keyof EngineCalls | 'recordingParts'

/** Throws `internal` if there is no such call. */
export function assertEngineCall(name: string): asserts name is keyof EngineCalls {
  if (Object.hasOwn(engineCalls, name)) return
  const names = Object.keys(engineCalls).join(', ')
  throw new CllmError('internal', `Expected one of ${names}, instead got "${name}"`)
}

/** The traits of each call. */
export const callTraits: Readonly<Record<EngineCallName, CallTraits>> = {
  ...engineCalls,
  recordingParts: {},
}

/** The arguments of a call with the signal that ends it, where the call takes one. */
export function withSignal(
  name: EngineCallName,
  values: readonly unknown[],
  signal: AbortSignal,
): unknown[] {
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

for (const name of Object.keys(engineCalls) as (keyof EngineCalls)[]) {
  Object.defineProperty(CallForwarder.prototype, name, {
    configurable: true,
    writable: true,
    async value(this: { forward: CallForwarder['forward'] }, ...values: unknown[]) {
      return await this.forward(name, values)
    },
  })
}
