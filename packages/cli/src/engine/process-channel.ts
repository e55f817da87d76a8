import type { ChildProcess } from 'node:child_process'
import {
  type AdapterSource,
  type EngineOptions,
  type PartChoice,
  type Clock,
  type Logger,
  systemClock,
} from '@cllm/core'
import type { PluginEntry, StateFolderOptions, Channel, FromEngine, ToEngine } from '@cllm/host'
import type { LogSettings } from '../process/logger.js'

// Imports no code of the configuration or of HTTP, so that an engine's process loads neither.

/** The built-in backend's name. */
export const llamaCpp = 'llamacpp'

/** The settings of an engine's process; sent to it as JSON. */
export interface EngineSettings {
  /** The backend's name in the registry, such as `llamacpp`. */
  readonly backendName: string
  /** Its options, the model's path among them. */
  readonly backend: Readonly<Record<string, unknown>>
  /** The options of the draft model's backend, which has the same name; default: there is no draft model. */
  readonly draft?: Readonly<Record<string, unknown>>
  readonly policy: string
  readonly policyOptions: Readonly<Record<string, unknown>>
  readonly options: Partial<EngineOptions>
  readonly plugins: readonly PluginEntry[]
  /** Folder from which plugin names are resolved. */
  readonly pluginsFolder: string
  /** Plugins' replacements for built-in parts. */
  readonly use: PartChoice
  readonly log: LogSettings
  /** Adapters to load before the first request; default: none. */
  readonly adapters?: readonly AdapterSource[]
  /** Whether the engine starts without adapters that cannot be loaded; default false. */
  readonly skipsAdapters?: boolean
  /** Where the states of conversations without a slot are kept; default: nowhere. */
  readonly cache?: CacheSettings
  /** Bytes of RAM that other engines hold, which this one must not use; default 0. */
  readonly heldBytes?: number
  /** Engines that may compute at once on this machine's cores, this one among them; default 1. */
  readonly engines?: number
}

/** The tiers behind the slots. */
export interface CacheSettings {
  /** MiB of RAM. */
  readonly ram: number | 'auto'
  /** Files that survive a restart. */
  readonly disk?: StateFolderOptions
  /** Folder in memory for the states of models that are unloaded for others; only without `disk`. */
  readonly unloaded?: string
  /** Folder in memory for encoded images and sounds; only without the two above, which have them, too. */
  readonly encodings?: string
  /** Folder of the files that clients name. */
  readonly slotFolder?: string
  /** Key that the files are encrypted with; default: they are not encrypted. */
  readonly key?: string
  /** Server of the cluster whose machines share encoded images and sounds. Default: they are this one's. */
  readonly cluster?: { readonly url: string; readonly ca?: string }
}

/** Changes the log level of a running engine's process. */
export interface LogLevelMessage {
  readonly type: 'log-level'
  readonly level: string
}

/** The first message to an engine's process. */
export interface StartMessage {
  readonly type: 'start'
  readonly settings: EngineSettings
}

/** Milliseconds after which a killed process that has not ended is left to itself. */
const mostEndMs = 10_000

/** An engine's process, with the parent's end of the channel to it. */
export function childLink(child: ChildProcess, logger?: Logger, clock: Clock = systemClock) {
  /** Kills the process. One that waits for a device may not end: it then counts as ended, so that it is replaced. */
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
