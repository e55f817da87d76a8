import type { ChildProcess } from 'node:child_process'
import { type Clock, type Logger, systemClock } from '@cllm/core'
import type { Channel, EngineLink, FromEngine, ToEngine } from '@cllm/host'
import type { LogLevelMessage } from './engine-settings.js'

/** A process that has not ended for this long after it was killed is left to itself. */
const mostEndMs = 10_000

/** An engine's process, with the parent's end of the channel to it. */
export function childLink(
  child: ChildProcess,
  logger?: Logger,
  clock: Clock = systemClock,
): EngineLink {
  /** Ends it. One that waits for a device cannot end: it counts as ended, so that there is another one. */
  const kill = (): void => {
    if (!child.kill('SIGKILL')) return
    const leave = clock.at(clock.now() + mostEndMs, () => {
      logger?.error({ pid: child.pid }, 'the engine cannot be killed: it is left to itself')
      child.unref()
      child.channel?.unref()
      child.emit('disconnect')
      child.emit('exit')
    })
    child.once('exit', leave)
  }
  const channel: Channel<ToEngine, FromEngine> = {
    send(message) {
      // A child that has just died fails the send; `onClose` reports it.
      if (child.connected) child.send(message, () => {})
    },
    onMessage(listener) {
      child.on('message', listener as (message: unknown) => void)
    },
    onClose(listener) {
      let left = 2
      const onEnd = (): void => {
        if (--left > 0) return
        const { exitCode, signalCode } = child
        const how = exitCode === null ? signalCode : `code ${exitCode}`
        listener(how === null ? 'its process could not be killed' : `its process ended with ${how}`)
      }
      // The last messages are read between these two events, which come in either order.
      child.once('exit', onEnd)
      // A process that could not be made has no exit.
      child.once('error', (error) => {
        if (child.pid === undefined) listener(`its process could not be started: ${error.message}`)
      })
      child.once('disconnect', () => {
        // Without its channel the child is unreachable, and it may not end by itself.
        kill()
        onEnd()
      })
    },
  }
  return { channel, kill }
}

/**
 * The engine's end of the channel to its parent.
 *
 * @param setLogLevel - called when the parent wants another level
 */
export function parentChannel(
  self: NodeJS.Process,
  setLogLevel: (level: string) => void,
): Channel<FromEngine, ToEngine> {
  let listener: ((message: ToEngine) => void) | undefined
  self.on('message', (message: ToEngine | LogLevelMessage) => {
    if (message.type === 'log-level') setLogLevel(message.level)
    else listener?.(message)
  })
  return {
    send(message) {
      if (self.connected) self.send?.(message, undefined, {}, () => {})
    },
    onMessage(given) {
      listener = given
    },
    onClose(given) {
      self.once('disconnect', () => given('its parent is gone'))
    },
  }
}
