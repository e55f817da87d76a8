import type { Channel, FromEngine, ToEngine } from '@cllm/host'
import {
  overriding,
  watchStream,
  hostEngine,
  LocalEngineClient,
  RemoteEngineClient,
  StaticDirectory,
} from '@cllm/host'
import type { EngineClient, Random, EngineDirectory, Protocol, Engine } from '@cllm/core'
import { SimulatedClock, PluginRegistry, createEngine, defined, pause } from '@cllm/core'
import assert from 'node:assert/strict'
import { FakeBackend } from '../fakes/fake-backend.js'
import { firstComeFirstServed } from '../policy/first-come-first-served.js'
import { drive, until } from '../time/simulated-time.js'

/** A protocol that is up and running. */
export interface ServedProtocol {
  /** Such as `http://127.0.0.1:40123`. */
  readonly url: string
  /** Ends what is under way and takes nothing new. */
  close(): Promise<void>
}

/** Serves a protocol, and the one `beside` it, on a free port. */
export type ServeProtocol = (
  directory: EngineDirectory,
  beside: Protocol,
) => Promise<ServedProtocol>

/** A request of a protocol. */
export interface ProtocolRequest {
  /** Such as `/generate`. */
  readonly path: string
  /** Default: POST. */
  readonly method?: string
  /** Default: `content-type: application/json`. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** The event loop turns so often for what must come over a socket: two seconds at least. */
const patience = 200_000

/** How a server reaches the engine: by calls, or by JSON over a channel as in a child process. */
export type ProtocolClient = 'local' | 'remote'

/** A protocol in front of an engine on {@link FakeBackend} whose time stands still. */
export async function serveProtocol(make: ServeProtocol, kind: ProtocolClient) {
  const clock = new SimulatedClock()
  const backend = new FakeBackend({ clock, stepMs: () => 1, contextSize: 4096 })
  const engine = createEngine({ backend, policy: firstComeFirstServed, clock })
  let count = 0
  const client = await clientOf(engine, kind, { uint32: () => count++ })
  const watched = watchClient(client)
  let mounted = 0
  const beside: Protocol = { name: 'beside', mount: () => mounted++ }
  const served = await make(new StaticDirectory([['fake', watched.client]]), beside)

  const passTime = async <T>(promise: Promise<T>) => await drive(clock, promise, patience)
  const send = async (request: ProtocolRequest, signal?: AbortSignal) =>
    await fetch(new URL(request.path, served.url), {
      method: request.method ?? 'POST',
      headers: request.headers ?? { 'content-type': 'application/json' },
      ...defined({ body: request.body, signal }),
    })

  return {
    client,
    watched,
    timesMounted: () => mounted,
    /** The answer to a request: its status and its whole body. */
    async ask(request: ProtocolRequest) {
      const response = await passTime(send(request))
      const type = response.headers.get('content-type') ?? ''
      return { status: response.status, type, body: await passTime(response.text()) }
    },
    /** Sends a request and leaves while its third token is computed; one more step is computed. */
    async leave(request: ProtocolRequest) {
      const leaving = new AbortController()
      const answer = send(request, leaving.signal).then(
        async (response) => await response.text().catch(() => undefined),
        () => undefined,
      )
      for (const step of [1, 2, 3]) {
        await until(() => backend.isStepping, patience, `step ${step} of the request`)
        if (step < 3) clock.advance(1)
      }
      leaving.abort()
      await answer
      await until(() => watched.isCancelled(), patience, 'the protocol cancels the request')
      await passTime(pause(clock, 1))
    },
    async close() {
      await passTime(served.close())
      await assert.rejects(send({ path: '/', method: 'GET' }), 'it still answers')
      await passTime(client.close())
      assert.deepEqual(backend.violations, [])
    },
  }
}

async function clientOf(
  engine: Engine,
  kind: ProtocolClient,
  random: Random,
): Promise<EngineClient> {
  const registry = new PluginRegistry()
  if (kind === 'local') return new LocalEngineClient(engine, registry, random)
  const [here, there] = jsonChannel<ToEngine, FromEngine>()
  const client = new RemoteEngineClient(here, random)
  hostEngine(engine, registry, there)
  await client.ready()
  return client
}

/** Both ends of a channel in this process that turns every message into JSON and back. */
export function jsonChannel<Out, In>(): [Channel<Out, In>, Channel<In, Out>] {
  const listeners: ((message: never) => void)[] = []
  const end = <Sent, Received>(own: 0 | 1): Channel<Sent, Received> => ({
    send(message) {
      const json = JSON.stringify(message)
      queueMicrotask(() => listeners[1 - own]?.(JSON.parse(json) as never))
    },
    onMessage: (listener) => void (listeners[own] = listener),
    onClose() {},
  })
  return [end(0), end(1)]
}

/** An {@link EngineClient} that passes everything on and can be asked what it has seen. */
function watchClient(inner: EngineClient) {
  let pieces: string[] = []
  let failure: unknown
  let piecesBefore = 0
  let left = false
  let signal: AbortSignal | undefined

  const client = overriding(inner, {
    submit(request, options) {
      pieces = []
      left = false
      signal = options?.signal
      if (failure !== undefined && piecesBefore === 0) return failing(failure)
      return watchStream(inner.submit(request, options), {
        onEvent(event) {
          if (event.type !== 'start') pieces.push(event.text)
          if (failure !== undefined && pieces.length > piecesBefore) throw failure
        },
        onEnd: (error) => void (left ||= error?.code === 'cancelled'),
      })
    },
    cancel(id, reason) {
      left = true
      inner.cancel(id, reason)
    },
  })
  return {
    client,
    /** What the last request generated so far. */
    text: () => pieces.join(''),
    /** The same, a piece for each event. */
    pieces: (): readonly string[] => pieces,
    /** Whether the last request was cancelled in one of the three ways that there are. */
    isCancelled: () => left || signal?.aborted === true,
    /** Makes the next requests fail with this after so many pieces, or with undefined succeed. */
    failWith(error: unknown, after = 0) {
      failure = error
      piecesBefore = after
    },
  }
}

// oxlint-disable-next-line require-yield -- it has nothing to yield
async function* failing(error: unknown): AsyncGenerator<never, undefined> {
  throw error
}
