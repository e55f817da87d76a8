/** The object with every possibly undefined property made optional. */
export type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>
}

/**
 * The object without its undefined properties: `{ id, ...defined({ stop }) }` has a `stop` only where
 * there is one, as `exactOptionalPropertyTypes` requires. It iterates over the properties, so do not use it
 * per token.
 */
export function defined<T extends object>(values: T): Defined<T> {
  const kept: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(values)) if (value !== undefined) kept[name] = value
  return kept as Defined<T>
}

/** The entry of a map, which is made where there is none; it may be undefined. */
export function entryOf<Key, Value>(
  map: Pick<Map<Key, Value>, 'get' | 'has'> & { set(key: Key, value: Value): unknown },
  key: Key,
  make: () => NoInfer<Value>,
): Value {
  const known = map.get(key)
  if (known !== undefined || map.has(key)) return known as Value
  const made = make()
  map.set(key, made)
  return made
}

/** The entry of a table by a name that somebody wrote; no table has one by a name of all objects, such as `constructor`. */
export const ownEntry = <Value>(
  table: Readonly<Record<string, Value>>,
  name: string,
): Value | undefined => (Object.hasOwn(table, name) ? table[name] : undefined)

/** Puts an entry at the end of a map, which forgets its first one where it has more than `most`. */
export function setLatest<Key, Value>(
  map: Map<Key, Value>,
  key: Key,
  value: Value,
  most: number,
): void {
  map.delete(key)
  map.set(key, value)
  const [oldest] = map.keys()
  if (map.size > most) map.delete(oldest!)
}

/** The lowest integer from `low` on for which the test holds, as it does for all above it; or `high`. */
export function lowestWhere(low: number, high: number, holds: (value: number) => boolean): number {
  while (low < high) {
    const middle = (low + high) >>> 1
    if (holds(middle)) high = middle
    else low = middle + 1
  }
  return low
}
