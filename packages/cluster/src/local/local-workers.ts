import type { EngineClient, EngineInfo, RouterPolicy, Services } from '@cllm/core'
import { defined, silentLogger, systemClock, systemRandom } from '@cllm/core'
import { createRouter } from '@cllm/scheduler'
import { ClusterEngineClient } from '../front/cluster-channel.js'
import { defaultPlacingOptions } from '../front/placing/placing.js'
import { protocol } from '../link/envelope.js'
import type { FromWorker, ToWorker, WorkerRecord } from '../messages.js'
import { WorkerSessions } from '../worker/worker-sessions.js'
import { LinkEnd, type NamedChannel } from '../link/link.js'

/** One of several engines of a model on this machine. */
export interface LocalWorker {
  /** An id that is unique among them. */
  readonly id: string
  readonly client: EngineClient
  readonly info: EngineInfo
  /** Resolves with the reason when it has ended and will not be started again. */
  readonly gone: Promise<string>
  /** Calls back when its engine dies and is started again (false), and when it is back (true). */
  readonly onUp: (listener: (isUp: boolean) => void) => void
}

/** Options of {@link joinLocalWorkers}; all have defaults. */
export interface LocalWorkersOptions extends Partial<Services> {
  /** Chooses the engine of a request. Default: `prefix-wait`. */
  readonly router?: RouterPolicy
}

/** Several engines as one. */
export interface LocalWorkers {
  readonly client: ClusterEngineClient
  /** Resolves with the first one's reason when all have ended. */
  readonly gone: Promise<string>
}

const front = 'local'

/**
 * Joins several engines of one model on this machine into one engine, with the router of a cluster but without a
 * Redis server. When one dies, the requests with a token from it go on at another one at once, and the others at the
 * same one when it is back: no token is lost, repeated or changed. Closing the client closes no engine.
 */
export function joinLocalWorkers(
  workers: readonly LocalWorker[],
  options: LocalWorkersOptions = {},
): LocalWorkers {
  const { router = createRouter(), clock = systemClock } = options
  const { random = systemRandom, logger = silentLogger } = options
  const client = new ClusterEngineClient({
    front,
    router,
    clock,
    random,
    logger,
    // Requests wait without a limit, as each engine is started again for as long as that makes sense.
    options: { ...defaultPlacingOptions, patienceMs: Infinity },
  })
  const all = workers.reduce((sum, { info }) => sum + info.limits.slots, 0)
  const ends = workers.map(async (worker) => {
    const { id, info, client: engine } = worker
    const [here, there] = directLinks<ToWorker, FromWorker>(`${front}/${id}`)
    const { slots } = info.limits
    const sessions = new WorkerSessions({ client: engine, slots, clock, logger })
    sessions.accept(front, there)
    client.workers.join(recordOf(worker, all, workers.length), here)
    worker.onUp((isUp) => sessions.enter(isUp ? 'up' : 'restarting'))
    const reason = await worker.gone
    sessions.close(reason)
    sessions.forget(front, there.id)
    return reason
  })
  const gone = Promise.all(ends).then(([reason = 'there is none']) => {
    client.workers.end(reason)
    return reason
  })
  return { client, gone }
}

/** The record of a worker, with the slots and KV tokens of all workers together, as clients see a single engine. */
function recordOf({ id, info }: LocalWorker, slots: number, workers: number): WorkerRecord {
  const { kvTokens } = info.limits
  const pools = defined({ kvTokens: kvTokens && kvTokens * workers })
  const load = { slots: info.limits.slots, open: 0, openTokens: 0, backlogTokens: 0 }
  return {
    kind: 'worker',
    protocol,
    id,
    state: 'up',
    info: { ...info, limits: { ...info.limits, slots, ...pools } },
    fingerprint: info.fingerprint ?? 'one machine',
    host: front,
    refusedMessages: 0,
    load,
  }
}

/** One end of a channel within a process. */
class DirectLink<Out, In> extends LinkEnd<In> implements NamedChannel<Out, In> {
  other: DirectLink<In, Out> | undefined

  constructor(readonly id: string) {
    super()
  }

  send(message: Out): boolean {
    const { other } = this
    // Not synchronously, as the sender may be in the middle of a change.
    queueMicrotask(() => {
      if (other?.closed === undefined) other?.tell(message)
    })
    return true
  }

  close(reason: string): void {
    this.end(reason)
    this.other?.end('the other side closed it')
  }

  /** Closes this end. */
  end(reason: string): void {
    if (this.closed === undefined) this.tellClosed(reason)
  }
}

/** The two ends of a channel within a process, for a front and a worker in it. */
export function directLinks<Out, In>(
  id: string,
): readonly [NamedChannel<Out, In>, NamedChannel<In, Out>] {
  const [one, other] = [new DirectLink<Out, In>(id), new DirectLink<In, Out>(id)]
  one.other = other
  other.other = one
  return [one, other]
}
