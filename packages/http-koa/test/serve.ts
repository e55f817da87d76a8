import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { type FileHandle, open } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import {
  adapterSets,
  NamedModels,
  createServer,
  StaticDirectory,
  type ClosableDirectory,
} from '@cllm/host'
import {
  SimulatedClock,
  type EngineClient,
  type EngineOptions,
  type Logger,
  type ModelPreset,
  type PluginRegistry,
  type SchedulerPolicy,
} from '@cllm/core'
import { FakeBackend, type FakeBackendOptions } from '@cllm/testing'
import {
  koaTransport,
  nativeProtocol,
  type KoaProtocol,
  type KoaTransportOptions,
} from '@cllm/http-koa'
import type { Test } from 'tap'
import { engineClient } from './each-client.js'

/** Admits whatever fits and runs all of it. */
export const runAll: SchedulerPolicy = {
  name: 'run-all',
  plan({ waiting, running, freeSlots, limits }) {
    const admitted = [...waiting].slice(0, freeSlots)
    let budget = limits.batchSize
    const run = [...running, ...admitted].flatMap((request) => {
      const tokens = Math.min(budget, request.remainingTokens)
      budget -= tokens
      return tokens > 0 ? [{ id: request.id, tokens }] : []
    })
    return { admit: admitted.map(({ id }) => id), preempt: [], reject: [], run }
  },
}

export interface LogLine {
  readonly level: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly message: string
}

export interface ServeOptions {
  readonly backend?: FakeBackendOptions
  readonly protocols?: readonly KoaProtocol[]
  readonly bodyLimitBytes?: number
  readonly port?: number
  readonly host?: string | readonly string[]
  /** The server's models, in place of those of its engine. */
  readonly directory?: (models: ClosableDirectory) => ClosableDirectory
  readonly presets?: readonly ModelPreset[]
  readonly engine?: Partial<EngineOptions>
  readonly registry?: PluginRegistry
  readonly fallbackPolicy?: () => SchedulerPolicy
  readonly transport?: Partial<KoaTransportOptions>
}

/** A server on a fake backend, with simulated time and real sockets. */
export async function serve(options: ServeOptions = {}) {
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({
    ...options.backend,
    ...(options.backend?.stepMs ? { clock } : {}),
  })
  const log: LogLine[] = []
  const line =
    (level: string): Logger['info'] =>
    (fields, message) =>
      log.push({ level, fields, message })
  const logger = {
    debug: line('debug'),
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
  }
  const { protocols = [nativeProtocol()], bodyLimitBytes, host, port = 0 } = options
  const engine = await engineClient({
    backend,
    policy: runAll,
    clock,
    logger,
    ...(options.engine === undefined ? {} : { options: options.engine }),
    ...(options.registry === undefined ? {} : { registry: options.registry }),
    ...(options.fallbackPolicy === undefined ? {} : { fallbackPolicy: options.fallbackPolicy }),
  })
  const models = new StaticDirectory([[backend.model.id, engine]])
  const all =
    options.backend?.adapters === true
      ? new NamedModels(models, { adapterSetOf: adapterSets() })
      : models
  const directory = options.directory?.(all) ?? all
  const server = createServer({
    directory,
    presets: options.presets ?? [],
    clock,
    logger,
    transports: [
      koaTransport({
        ...options.transport,
        port,
        protocols,
        ...(host === undefined ? {} : { host }),
        ...(bodyLimitBytes === undefined ? {} : { bodyLimitBytes }),
      }),
    ],
  })
  const [address] = await server.listen()
  const url = address?.url ?? ''
  const client: EngineClient = server.directory.open()
  return {
    url,
    port: Number(new URL(url).port),
    clock,
    backend,
    log,
    client,
    server,
    close: () => server.close(0),
    get: (path: string, init?: RequestInit) => fetch(url + path, init),
    post: (path: string, body: unknown, init?: RequestInit) =>
      fetch(url + path, {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
        headers: { 'Content-Type': 'application/json' },
        ...init,
      }),
  }
}

export type Served = Awaited<ReturnType<typeof serve>>

/** Lets the event loop turn until something has happened, for a minute at most. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const since = performance.now()
  while (!(await condition())) {
    if (performance.now() - since > 60_000)
      throw new Error(`not within a minute: ${String(condition)}`)
    await turnOfTheEventLoop()
  }
}

/** The events of a stream that has ended, checked for their form: those with types are named after them. */
export function eventsOf(text: string): Record<string, unknown>[] {
  const parts = text.split('\n\n')
  if (parts.pop() !== '') throw new Error(`an event is not ended: ${text}`)
  return parts.map((part) => {
    const [, name, data = ''] = /^(?:id: .*\n)?(?:event: (.*)\n)?data: (.*)$/.exec(part) ?? []
    const event = JSON.parse(data) as Record<string, unknown>
    if (name === event['type']) return event
    throw new Error(`an event is not what its name says: ${part}`)
  })
}

/** Makes a pipe in place of a file; false on Windows, which has none in folders. */
export const madePipe = (path: string): boolean => spawnSync('mkfifo', [path]).status === 0

/** Collects what Node warns of from now on, such as a signal with many listeners; it tells in a later turn. */
export function warningsIn(t: Test): () => Promise<readonly string[]> {
  const warnings: string[] = []
  const note = ({ message }: Error): void => void warnings.push(message)
  process.on('warning', note)
  t.teardown(() => process.off('warning', note))
  return async () => {
    await turnOfTheEventLoop()
    return warnings
  }
}

/** A bare connection that sends a request and collects what comes. */
export async function rawRequest(
  port: number,
  text: string,
  host = '127.0.0.1',
): Promise<RawConnection> {
  const socket = connect(port, host)
  await once(socket, 'connect')
  socket.write(text)
  return new RawConnection(socket)
}

export class RawConnection {
  received = ''
  closed = false
  error: Error | undefined

  constructor(readonly socket: Socket) {
    socket.setEncoding('utf8')
    socket.on('data', (data: string) => (this.received += data))
    socket.on('error', (error) => (this.error = error))
    socket.on('close', () => (this.closed = true))
  }
}

/** The bytes of a POST with this JSON. */
export function rawPost(path: string, body: unknown, headers = ''): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return (
    `POST ${path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n${headers}` +
    `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
  )
}

/** Has `work` write what is appended to open files, such as late. */
export async function eachWrite(t: Test, work: (write: () => Promise<void>) => Promise<void>) {
  const probe = await open(t.testdirName)
  const handles = Object.getPrototypeOf(probe) as FileHandle
  await probe.close()
  const append: FileHandle['appendFile'] = Reflect.get(handles, 'appendFile')
  t.teardown(() => (handles.appendFile = append))
  handles.appendFile = async function (this: FileHandle, ...line) {
    await work(async () => await append.apply(this, line))
  }
}
