import FlatQueue from 'flatqueue'

/** A pair of symbols that becomes one. */
export type Merge = readonly [left: string, right: string]

/** A pair of adjacent symbols and where it occurs. */
interface Pair {
  readonly left: number
  readonly right: number
  count: number
  /** Indexes of words that hold the pair, or held it once. */
  readonly words: Set<number>
}

const PAIR_BASE = 2 ** 21

/**
 * Learns byte-pair merges (Sennrich et al. 2016): again and again the most frequent pair of neighbours within a word
 * becomes a symbol. Only the words that hold the pair are visited, so the time follows the text, not the merges.
 * @param words words, one character per starting symbol, with how often they occur.
 * @param limit the most merges to learn; fewer when every word has become one symbol.
 */
export function learnMerges(words: ReadonlyMap<string, number>, limit: number): Merge[] {
  const symbols: string[] = []
  const symbolIds = new Map<string, number>()
  const pairs = new Map<number, Pair>()
  const counts = [...words.values()]
  const queue = new FlatQueue<Pair>()

  const symbolId = (symbol: string): number => {
    let id = symbolIds.get(symbol)
    if (id === undefined) {
      id = symbols.push(symbol) - 1
      symbolIds.set(symbol, id)
    }
    return id
  }

  const change = (left: number, right: number, word: number, amount: number): Pair => {
    const key = left * PAIR_BASE + right
    let pair = pairs.get(key)
    if (pair === undefined) {
      pair = { left, right, count: 0, words: new Set() }
      pairs.set(key, pair)
    }
    pair.count += amount
    if (amount > 0) pair.words.add(word)
    return pair
  }

  const split = [...words.keys()].map((word, index) => {
    const ids = Array.from(word, symbolId)
    for (let at = 1; at < ids.length; at++) {
      change(ids[at - 1] ?? 0, ids[at] ?? 0, index, counts[index] ?? 0)
    }
    return ids
  })
  for (const pair of pairs.values()) queue.push(pair, -pair.count)

  const merges: Merge[] = []
  while (merges.length < limit) {
    const expected = -(queue.peekValue() ?? 0)
    const pair = queue.pop()
    if (pair === undefined) break
    if (pair.count !== expected) {
      if (pair.count > 0) queue.push(pair, -pair.count)
      continue
    }
    if (pair.count <= 0) continue
    const left = symbols[pair.left] ?? ''
    const right = symbols[pair.right] ?? ''
    merges.push([left, right])
    const merged = symbolId(left + right)
    const grown = new Set<Pair>()
    for (const word of pair.words) {
      const ids = split[word] ?? []
      const count = counts[word] ?? 0
      for (let at = 0; at + 1 < ids.length; at++) {
        if (ids[at] !== pair.left || ids[at + 1] !== pair.right) continue
        const before = ids[at - 1]
        const after = ids[at + 2]
        if (before !== undefined) {
          change(before, pair.left, word, -count)
          grown.add(change(before, merged, word, count))
        }
        if (after !== undefined) {
          change(pair.right, after, word, -count)
          grown.add(change(merged, after, word, count))
        }
        ids.splice(at, 2, merged)
      }
    }
    pair.count = 0
    pair.words.clear()
    for (const other of grown) if (other !== pair) queue.push(other, -other.count)
  }
  return merges
}
