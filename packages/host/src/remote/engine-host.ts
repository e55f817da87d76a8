import { CllmError, defined, type Engine, type PluginRegistry } from '@cllm/core'
import type { Channel, FromEngine, ToEngine } from './channel.js'
import { assertEngineCall, withSignal } from './engine-calls.js'
import { EngineControl } from '../client/engine-control.js'
import { Heartbeat } from './heartbeat.js'

/** What a host says of its engine that the engine does not know. */
export interface EngineHostOptions {
  /** See `EngineInfo`. Default: none. */
  readonly fingerprint?: string | undefined
}

/**
 * Serves an engine over a channel: the other end of {@link RemoteEngineClient}. All events of a step
 * are one message; before a request is prepared, a message names it, so that the parent knows
 * what the engine was working on if it crashes.
 */
export function hostEngine(
  engine: Engine,
  registry: PluginRegistry,
  channel: Channel<FromEngine, ToEngine>,
  { fingerprint }: EngineHostOptions = {},
): void {
  const control = new EngineControl(engine, registry)
  const heartbeat = new Heartbeat((message) => channel.send(message), fingerprint)
  engine.observe(heartbeat)
  const calls = new Map<number, AbortController>()
  channel.onMessage((message) => {
    if (message.type === 'submit') engine.submit(message.id, message.request)
    else if (message.type === 'cancel') engine.cancel(message.id, message.reason)
    else if (message.type === 'leave') calls.get(message.call)?.abort()
    else void answer(control, heartbeat, message, calls)
  })
  channel.onClose(() => void engine.close())
  const { name: policy, options = {} } = engine.scheduler().policy
  const info = { ...engine.info(), ...defined({ fingerprint }) }
  heartbeat.send({ type: 'ready', info, scheduler: { policy, options } })
}

async function answer(
  control: EngineControl,
  heartbeat: Heartbeat,
  message: ToEngine & { type: 'call' },
  calls: Map<number, AbortController>,
): Promise<void> {
  const { call, name } = message
  const controller = new AbortController()
  calls.set(call, controller)
  try {
    assertEngineCall(name)
    const given = withSignal(name, message.arguments, controller.signal)
    const method = control[name] as (...values: readonly unknown[]) => Promise<unknown>
    heartbeat.send({ type: 'result', call, value: await method.apply(control, given) })
  } catch (error) {
    heartbeat.send({ type: 'error', call, error: CllmError.from(error).serialize() })
  } finally {
    calls.delete(call)
  }
}
