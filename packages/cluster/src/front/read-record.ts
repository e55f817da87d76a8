import { attempt } from '@cllm/core'
import { protocol } from '../link/envelope.js'
import type { WorkerRecord } from '../messages.js'
import { isObject } from '../link/check-messages.js'

/** A worker whose version does not go with this one's: nothing can be said to it. */
export interface IncompatibleWorker {
  readonly kind: 'incompatible'
  readonly id: string
  /** What it speaks. */
  readonly protocol: number
  /** Empty where it does not say so in a way that is understood. */
  readonly model: string
  readonly host: string
}

/** What the list of members has of a worker; undefined for what no worker of any version has written. */
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

/** What is wrong with workers of other versions, for people. */
export function whyIncompatible(workers: readonly IncompatibleWorker[]): string {
  const theirs = [...new Set(workers.map((worker) => worker.protocol))].join(', ')
  const [one] = workers
  const who =
    workers.length === 1 ? `the worker ${one?.id} speaks` : `${workers.length} workers speak`
  return `${who} the cluster protocol ${theirs}, this front ${protocol}: run the same version of cllm everywhere`
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
