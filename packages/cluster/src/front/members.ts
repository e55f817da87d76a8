import { CllmError, type Clock, type ModelInfo, type WorkerStatistics, attempt } from '@cllm/core'
import { type WorkerReport, WorkerTable } from '@cllm/scheduler'
import type { NamedChannel } from '../link/link.js'
import type { FromWorker, ToWorker, WorkerNews, WorkerRecord, WorkerState } from '../messages.js'
import { protocol } from '../link/envelope.js'
import { isObject } from '../link/check-messages.js'
import type { LinkedWorker } from './placing/placed-request.js'

/** A worker to which this front has a link. */
export interface Member extends LinkedWorker {
  state: WorkerState
  /** Whether it drains and wants its requests to move to other workers. */
  isMigrating: boolean
  /** The number of its requests that do not belong to batches, as of its last report. */
  clients: number
  /** Its last report; undefined before the first one, until which it gets no requests. */
  report: WorkerReport | undefined
}

/** Whether a worker takes new requests. */
export const isUp = ({ state }: Pick<Member, 'state'>): boolean => state === 'up'

/** Milliseconds that the first of several workers that start together waits for the others. */
const gatheringMs = 500

/** The workers of a model to which a front has links. */
export class Members {
  /** The workers as the router sees them. */
  readonly table: WorkerTable
  readonly #members = new Map<string, Member>()
  #gatheringUntil = -Infinity

  constructor(
    front: string,
    private readonly clock: Clock,
    private readonly incompatible: () => readonly IncompatibleWorker[] = () => [],
  ) {
    this.table = new WorkerTable(front)
  }

  get all(): Member[] {
    return [...this.#members.values()]
  }

  get(id: string | undefined): Member | undefined {
    return id === undefined ? undefined : this.#members.get(id)
  }

  add(record: WorkerRecord, link: NamedChannel<ToWorker, FromWorker>): Member {
    const { state } = record
    const unknown = { isMigrating: false, clients: 0, report: undefined }
    const member: Member = { record, link, state, ...unknown, requests: new Map() }
    this.#members.set(record.id, member)
    return member
  }

  delete(id: string): void {
    this.#members.delete(id)
    this.table.delete(id)
  }

  onReport(member: Member, { state, report, clients, isMigrating = false }: WorkerNews): void {
    const { id } = member.record
    if (this.all.every((one) => one.report === undefined)) {
      this.#gatheringUntil = this.clock.now() + gatheringMs
    }
    member.state = state
    member.isMigrating = isMigrating
    member.clients = clients
    member.report = report
    this.table.set(id, report, this.clock.now())
    this.table.setEligible(id, state === 'up')
  }

  /**
   * Whether the first worker is there after a time without any, and others are about to follow: the first one must not
   * get all waiting requests.
   */
  get isGathering(): boolean {
    if (this.clock.now() >= this.#gatheringUntil) return false
    return this.all.some(({ report }) => report === undefined)
  }

  /** The workers with larger slots. */
  larger(contextSize: number): Member[] {
    return this.all.filter(({ record }) => record.info.limits.contextSize > contextSize)
  }

  /** The statistics of all workers, including incompatible ones. */
  get statistics(): WorkerStatistics[] {
    const own = this.all.map(({ record: { id }, state, report }) => {
      const { slots = 0, open = 0 } = report ?? {}
      return { id, state, slots, open }
    })
    const state = 'incompatible' as const
    return [...own, ...this.incompatible().map(({ id }) => ({ id, state, slots: 0, open: 0 }))]
  }

  /**
   * The worker that gets a call: the least busy one, preferably one that is up.
   *
   * @param refusedContext the slot size of the worker that has refused the call as too long; default 0: none has
   * @throws `engine_unavailable` if there is none
   */
  forCall(refusedContext = 0): Member {
    const known = this.allForCall(refusedContext)
    const up = known.filter(isUp)
    const [first, ...others] = (up.length > 0 ? up : known) as [Member, ...Member[]]
    const openOf = ({ report }: Member) => report?.open ?? 0
    return others.reduce((best, one) => (openOf(one) < openOf(best) ? one : best), first)
  }

  /**
   * The workers that get a call to all of them: those with slots larger than `refusedContext` tokens.
   *
   * @throws `engine_unavailable` if there are none
   */
  allForCall(refusedContext = 0): Member[] {
    const known = this.larger(refusedContext).filter(({ report }) => report !== undefined)
    if (known.length === 0) throw noWorker()
    return known
  }
}

/** The error for a request or call while there is no worker. */
export const noWorker = (): CllmError =>
  new CllmError('engine_unavailable', 'No worker of the cluster serves this model now')

/** The error for a request that is too large for an envelope. */
export const requestTooLarge = (): CllmError =>
  new CllmError('body_too_large', 'The request is too large for a message of the cluster')

/** Whether two workers' models differ at most in precision, so that each can continue with the other's tokens. */
export const isSameModel = (one: ModelInfo, other: ModelInfo): boolean =>
  one.architecture === other.architecture &&
  one.parameters === other.parameters &&
  one.vocabularySize === other.vocabularySize

/** A worker with another version of the cluster protocol, which gets no messages. */
export interface IncompatibleWorker {
  readonly kind: 'incompatible'
  readonly id: string
  /** The version of its cluster protocol. */
  readonly protocol: number
  /** The name of its model; empty if its record is not understood. */
  readonly model: string
  readonly host: string
}

/** Reads a worker's record in the list of members; undefined if no worker of any version can have written it. */
export function readRecord(
  id: string,
  text: string,
): WorkerRecord | IncompatibleWorker | undefined {
  const value: unknown = attempt(() => JSON.parse(text))
  if (!isObject(value) || value['kind'] !== 'worker' || value['id'] !== id) return undefined
  const { protocol: its = 1, state, info, fingerprint, host, load, refusedMessages } = value
  if (typeof its !== 'number') return undefined
  const model = isObject(info) && isObject(info['model']) ? info['model']['id'] : undefined
  if (its !== protocol) {
    return { kind: 'incompatible', id, protocol: its, model: textOf(model), host: textOf(host) }
  }
  const isWhole =
    [state, fingerprint, host, model].every((one) => typeof one === 'string') &&
    isObject(info) &&
    isObject(info['limits']) &&
    isObject(load) &&
    [load['slots'], load['open'], load['backlogTokens'], refusedMessages].every(
      (one) => typeof one === 'number',
    )
  return isWhole ? (value as unknown as WorkerRecord) : undefined
}

/** Explains to people why workers are incompatible. */
export function whyIncompatible(workers: readonly IncompatibleWorker[]): string {
  const theirs = [...new Set(workers.map((worker) => worker.protocol))].join(', ')
  const [one] = workers
  const who =
    workers.length === 1 ? `the worker ${one?.id} speaks` : `${workers.length} workers speak`
  return `${who} the cluster protocol ${theirs}, this front ${protocol}: run the same version of cllm everywhere`
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
