import type { TokenId } from '@cllm/core'

/**
 * The texts of tokens as a tree of their bytes, each node in front of those below it: a walk goes from
 * index to index. Node 0 is the empty text.
 */
export interface TokenTrie {
  /** The byte that leads to a node. */
  readonly bytes: Uint8Array
  /** The index behind all nodes below a node. */
  readonly ends: Uint32Array
  /** The tokens, sorted by their texts. */
  readonly tokens: Uint32Array
  /** Where the tokens with the text of a node begin; they go on to where those of the next node begin. */
  readonly starts: Uint32Array
}

/** @param tokens - their ids and texts, of which none is empty */
export function buildTokenTrie(tokens: Iterable<readonly [TokenId, Uint8Array]>): TokenTrie {
  const texts: (readonly [text: string, token: TokenId])[] = []
  let most = 1
  for (const [token, bytes] of tokens) {
    texts.push([Buffer.from(bytes).toString('latin1'), token])
    most += bytes.length
  }
  texts.sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0))
  const bytes = new Uint8Array(most)
  const ends = new Uint32Array(most)
  const starts = new Uint32Array(most + 1)
  let count = 1
  /** The nodes that lead to the last text. */
  const trail: number[] = [0]
  const close = (depth: number): void => {
    for (const node of trail.splice(depth)) ends[node] = count
  }
  let before = ''
  for (const [index, [text]] of texts.entries()) {
    let depth = 0
    while (depth < text.length && text[depth] === before[depth]) depth++
    close(depth + 1)
    for (; depth < text.length; depth++) {
      bytes[count] = text.charCodeAt(depth)
      starts[count] = index
      trail.push(count++)
    }
    before = text
  }
  close(0)
  starts[count] = texts.length
  return {
    bytes: bytes.slice(0, count),
    ends: ends.slice(0, count),
    tokens: Uint32Array.from(texts, ([, token]) => token),
    starts: starts.slice(0, count + 1),
  }
}

/** The bytes that go on from this text in texts of tokens. */
export function bytesBehind({ bytes, ends }: TokenTrie, text: Uint8Array): ReadonlySet<number> {
  let node = 0
  for (const byte of text) {
    const end = ends[node]!
    let child = node + 1
    while (child < end && bytes[child] !== byte) child = ends[child]!
    if (child >= end) return new Set()
    node = child
  }
  const behind = new Set<number>()
  for (let child = node + 1; child < ends[node]!; child = ends[child]!) behind.add(bytes[child]!)
  return behind
}
