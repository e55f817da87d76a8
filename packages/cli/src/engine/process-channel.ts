import type { ChildProcess } from 'node:child_process'
import type { Channel, FromEngine, ToEngine } from '@cllm/host'
import type { LogLevelMessage } from './engine-settings.js'

/** The parent's end of the channel to an engine's process. */
export function childChannel(child: ChildProcess): Channel<ToEngine, FromEngine> {
  return {
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
        listener(`its process ended with ${signalCode ?? `code ${exitCode}`}`)
      }
      // The last messages are read between these two events, which come in either order.
      child.once('exit', onEnd)
      // A process that could not be made has no exit.
      child.once('error', (error) => {
        if (child.pid === undefined) listener(`its process could not be started: ${error.message}`)
      })
      child.once('disconnect', () => {
        // Without its channel the child is unreachable, and it may not end by itself.
        child.kill('SIGKILL')
        onEnd()
      })
    },
  }
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
