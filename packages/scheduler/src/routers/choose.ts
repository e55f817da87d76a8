import { type WorkerView, mixBits } from '@cllm/core'

type Workers = readonly WorkerView[]
type CostOf = (worker: WorkerView) => number

/**
 * The worker with the lowest cost; of equal ones the one with the fewest requests, then the one whose last request is the
 * longest ago, so that idle workers take turns.
 */
export function leastBy(workers: Workers, costOf: CostOf): WorkerView {
  let [best] = workers as readonly [WorkerView]
  let least = costOf(best)
  for (const worker of workers) {
    if (worker === best) continue
    const cost = costOf(worker)
    if (cost > least || (cost === least && !isIdler(worker, best))) continue
    best = worker
    least = cost
  }
  return best
}

/** Costs within this distance of the lowest, as a share of it or in steps, count as equal: predictions are no better. */
const near = { share: 0.25, steps: 1 }

/**
 * A worker whose cost is about the lowest. Of several such workers, two are drawn by the request's id and the better one
 * is taken. As fronts do not see each other's latest placements and would choose the same worker, each draws among enough
 * workers to make that unlikely (see `spread`).
 */
export function nearlyLeastBy(id: string, workers: Workers, costOf: CostOf): WorkerView {
  const costs = workers.map(costOf)
  let least = Infinity
  for (const cost of costs) least = Math.min(least, cost)
  const good: number[] = []
  const most = (1 + near.share) * least
  for (let index = 0; index < workers.length; index++) {
    const cost = costs[index]!
    const isGood = cost <= most || cost <= most + near.steps * workers[index]!.stepMs
    if (isGood) good.push(index)
  }
  const many = workers[0]!.unseen > 0 ? spread(workers, costs) : []
  if (many.length > good.length) return many[hashOf(id) % many.length]!
  const [one, other] = drawTwo(id, good)
  const [better, worse] = costs[other]! < costs[one]! ? [other, one] : [one, other]
  const areEqual = costs[worse]! <= (1 + near.share) * costs[better]!
  return workers[areEqual && isIdler(workers[worse]!, workers[better]!) ? worse : better]!
}

/**
 * The cheapest workers, among which one is drawn: as many as minimize the sum of their mean cost and the expected cost of
 * meeting a request of another front that draws among them at the same time. Such a meeting costs the time of this
 * request's prompt on a worker that has nothing of it.
 */
function spread(workers: Workers, costs: readonly number[]): Workers {
  const byCost = [...workers.keys()].sort((one, other) => costs[one]! - costs[other]!)
  const { unseen } = workers[0]!
  const promptMs = Math.max(...workers.map(({ firstTokenMs, waitMs }) => firstTokenMs - waitMs))
  let [sum, count, least] = [0, 1, Infinity]
  for (const [index, worker] of byCost.entries()) {
    sum += costs[worker]!
    const expected = (sum + unseen * promptMs) / (index + 1)
    if (expected > least) break
    count = index + 1
    least = expected
  }
  return byCost.slice(0, count).map((worker) => workers[worker]!)
}

/** Two workers drawn by the id; the same one twice if there is only one. */
export function drawTwo<Worker>(id: string, workers: readonly Worker[]): readonly [Worker, Worker] {
  const hash = hashOf(id)
  const first = hash % workers.length
  const step = 1 + (mixBits(hash) % Math.max(1, workers.length - 1))
  return [workers[first]!, workers[(first + step) % workers.length]!]
}

const isIdler = (one: WorkerView, other: WorkerView): boolean =>
  one.open === other.open ? one.placedAt < other.placedAt : one.open < other.open

/** A hash of a text, the same on all machines. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  }
  return mixBits(hash)
}

/**
 * The workers of a key, the first choice first (rendezvous hashing): all fronts find the same workers, and a worker that
 * joins or leaves only moves its own keys.
 */
export function homesOf(key: string, workers: Workers, count: number): Workers {
  const start = hashOf(key)
  const ranked = workers.map((worker) => ({ worker, rank: mixBits(start ^ hashOf(worker.id)) }))
  ranked.sort((one, other) => other.rank - one.rank)
  return ranked.slice(0, count).map(({ worker }) => worker)
}

/** How much later than the earliest a first token may be, for the sake of a preferred worker. */
export interface Bound {
  /** As a share of the earliest. */
  readonly slack: number
  /** Milliseconds, in steps of the worker. */
  readonly steps: number
}

/** Whether the first token on this worker comes within the bound of the earliest. */
export function isWithin({ slack, steps }: Bound, worker: WorkerView, earliestMs: number): boolean {
  return worker.firstTokenMs <= (1 + slack) * earliestMs + steps * worker.stepMs
}
