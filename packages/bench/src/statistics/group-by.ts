/** What has the same key, in the order of the keys' first appearance. */
export function groupBy<Item, Key>(
  items: readonly Item[],
  keyOf: (item: Item) => Key,
): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>()
  for (const item of items) {
    const own = groups.get(keyOf(item))
    if (own === undefined) groups.set(keyOf(item), [item])
    else own.push(item)
  }
  return groups
}
