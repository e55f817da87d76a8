import {
  systemClock,
  systemRandom,
  silentLogger,
  PluginRegistry,
  createEngine,
  type EngineParts,
  checkMade,
  checkServerParts,
  CllmError,
  type Clock,
  type Random,
  type EngineClient,
  type ModelPreset,
  type EngineDirectory,
  type Transport,
  type TransportAddress,
  type TransportFactory,
  type Services,
  within,
} from '@cllm/core'
import { LocalEngineClient } from '../client/engine-control.js'
import { adapterSets, NamedModels } from '../models/named-models.js'
import { type ClosableDirectory, StaticDirectory } from './static-directory.js'

/** Parts of every server besides its engines. */
export interface ServerParts extends Partial<Services> {
  /** How clients reach it; see `koaTransport` of `@cllm/http-koa`. */
  readonly transports: readonly TransportFactory[]
  /** Further names of its models, with defaults for fields that requests leave out. Default: none. */
  readonly presets?: readonly ModelPreset[]
}

/** A server on engines that exist already, such as {@link RemoteEngineClient}s, by model name. */
export interface ServerOnEngines extends ServerParts {
  readonly engines: Readonly<Record<string, EngineClient>>
}

/** A server on engines that are loaded and unloaded, such as a {@link ModelPool}. */
export interface ServerOnDirectory extends ServerParts {
  readonly directory: ClosableDirectory
}

/** A server with one engine in this process. */
export interface ServerInProcess extends ServerParts, EngineParts {
  /** The policies that clients can switch to by name; default: none. */
  readonly registry?: PluginRegistry
}

/** Milliseconds for sending the last events after a grace period. */
const flushMs = 2000

/** A server. */
export interface Server {
  readonly directory: EngineDirectory
  /** Opens the transports; resolves with their addresses. A server that fails here is still to be closed. */
  listen(): Promise<TransportAddress[]>
  /**
   * Refuses new requests, lets running ones finish for at most `graceMs` milliseconds (default 0), ends
   * the rest with `shutting_down`, and closes the engines.
   */
  close(graceMs?: number): Promise<void>
}

const partNames: Readonly<
  Record<keyof (ServerOnDirectory & ServerOnEngines & ServerInProcess), true>
> = {
  transports: true,
  presets: true,
  clock: true,
  random: true,
  logger: true,
  engines: true,
  directory: true,
  backend: true,
  draftBackend: true,
  policy: true,
  fallbackPolicy: true,
  tokenizer: true,
  options: true,
  stateFiles: true,
  stateMemory: true,
  slotFiles: true,
  learned: true,
  counts: true,
  observers: true,
  registry: true,
  use: true,
}

/**
 * Creates a server from instances.
 *
 * @throws `invalid_configuration` for parts that are unknown or missing
 */
export function createServer(given: ServerOnDirectory | ServerOnEngines | ServerInProcess): Server {
  // Callers in JavaScript may pass nothing.
  const parts: typeof given = Object(given)
  const own = 'backend' in parts ? [['policy']] : []
  checkServerParts(parts, Object.keys(partNames), [['backend', 'engines', 'directory'], ...own])
  const { clock = systemClock, random = systemRandom, logger = silentLogger } = parts
  const directory = 'directory' in parts ? parts.directory : directoryOf(parts, random)
  const models = directory instanceof NamedModels ? directory : new NamedModels(directory)
  for (const preset of parts.presets ?? []) models.presets.add(preset)
  const context = { directory: models, clock, random, logger }
  const transports = parts.transports.map((create) => {
    const made = create(context)
    return checkMade('transport', made?.name ?? create.name, made, 'name', 'listen', 'close')
  })

  return {
    directory,
    async listen() {
      return await Promise.all(transports.map((transport) => transport.listen()))
    },
    async close(graceMs = 0) {
      const deadline = clock.now() + graceMs
      const failures: unknown[] = []
      // All transports are called, even if one throws.
      const each = async (ask: (transport: Transport) => unknown): Promise<void> => {
        const answers = transports.map(async (transport) => await ask(transport))
        await Promise.all(answers.map((answer) => answer.catch((error) => failures.push(error))))
      }
      // Not awaited: a transport that drains for ever must not keep the others open.
      void each((transport) => transport.drain?.())
      const drained = Promise.allSettled([directory.drain()])
      if (graceMs > 0) await settledBy(clock, deadline, drained)
      const ended = directory.close()
      // Streams that are cut short still have an error event to send.
      const cut = clock.now() + (graceMs > 0 ? flushMs : 0)
      const lateMs = cut + flushMs - clock.now()
      const closing = each(async (transport) => {
        await within(clock, lateMs, transport.close(cut), () => {
          const message = `transport "${transport.name}": it is not closed ${flushMs / 1000} s after its deadline`
          throw new CllmError('plugin_invalid', message)
        })
      })
      await ended
      await closing
      if (failures.length > 0) throw failures[0]
    },
  }
}

/** The directory of the given engines. With adapters, a model can be named together with one. */
function directoryOf(parts: ServerOnEngines | ServerInProcess, random: Random): ClosableDirectory {
  if ('engines' in parts) return new StaticDirectory(Object.entries(parts.engines))
  const { backend, registry = new PluginRegistry() } = parts
  const client = new LocalEngineClient(createEngine(parts), registry, random)
  const directory = new StaticDirectory([[backend.model.id, client]])
  if (backend.adapters === undefined) return directory
  return new NamedModels(directory, { adapterSetOf: adapterSets() })
}

async function settledBy(clock: Clock, deadline: number, work: Promise<unknown>): Promise<void> {
  await new Promise<void>((resolve) => {
    const cancel = clock.at(deadline, resolve)
    void work.then(() => {
      cancel()
      resolve()
    })
  })
}
