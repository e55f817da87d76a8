/** What is read of `source` is remembered, so that it can be read again from the beginning. */
export function remembered<Item>(source: Iterable<Item>): Iterable<Item> {
  const seen: Item[] = []
  const rest = source[Symbol.iterator]()
  return {
    *[Symbol.iterator]() {
      for (let index = 0; ; index++) {
        if (index === seen.length) {
          const { done, value } = rest.next()
          if (done === true) return
          seen.push(value)
        }
        yield seen[index] as Item
      }
    },
  }
}
