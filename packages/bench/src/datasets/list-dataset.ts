import type { Dataset, WorkItem } from '../workload/work-item.js'

/** A dataset of the items of a list, from the beginning again after the last. */
export function listDataset(name: string, items: readonly WorkItem[]): Dataset {
  return {
    name,
    size: items.length,
    timed: items.every(({ atMs }) => atMs !== undefined),
    item: (index) => items[index % items.length] as WorkItem,
  }
}
