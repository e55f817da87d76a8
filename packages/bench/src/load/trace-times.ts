import type { Dataset } from '../workload/work-item.js'

/**
 * When the items of a trace are sent, by their index. A trace that begins anew goes on after its last request, at its
 * mean distance.
 *
 * @param count - as many as are sent
 */
export function traceTimes(dataset: Dataset, count: number): (index: number) => number {
  const { size = count } = dataset
  const last = dataset.item(size - 1).atMs ?? 0
  const lapMs = (last * size) / Math.max(1, size - 1)
  return (index) => (dataset.item(index).atMs ?? 0) + lapMs * Math.floor(index / size)
}
