import { entryOf } from '@cllm/core'

/** What has the same key, in the order of the keys' first appearance. */
export function groupBy<Item, Key>(
  items: readonly Item[],
  keyOf: (item: Item) => Key,
): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>()
  for (const item of items) entryOf(groups, keyOf(item), () => []).push(item)
  return groups
}
