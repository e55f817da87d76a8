import type { TokenId } from '@cllm/core'

/**
 * The texts of tokens as a trie of their bytes. The nodes are in preorder, so that a walk goes from index to index.
 * Node 0 is the empty text.
 */
export interface TokenTrie {
  /** The byte that leads to a node. */
  readonly bytes: Uint8Array
  /** For each node, the index behind its subtree. */
  readonly ends: Uint32Array
  /** The tokens, sorted by their texts. */
  readonly tokens: Uint32Array
  /** For each node, where the tokens with its text begin in `tokens`; they end where those of the next node begin. */
  readonly starts: Uint32Array
}

/** The texts of all tokens of a model, concatenated. */
export interface TokenTexts {
  readonly bytes: Uint8Array
  /** Where each token's text begins; it ends where the next one begins. */
  readonly starts: Uint32Array
}

/**
 * Builds the trie of a model's tokens.
 * @param isIn - whether to include a token, if it has a text
 */
export function buildTokenTrie(texts: TokenTexts, isIn: (token: TokenId) => boolean): TokenTrie {
  const { bytes: text, starts: begins } = texts
  const all = new Uint32Array(begins.length - 1)
  let size = 0
  for (let token = 0; token < all.length; token++) {
    if (begins[token]! < begins[token + 1]! && isIn(token)) all[size++] = token
  }
  const tokens = all.slice(0, size)
  sortTokens(texts, tokens, 0)
  const bytes = new Uint8Array(text.length + 1)
  const ends = new Uint32Array(text.length + 1)
  const starts = new Uint32Array(text.length + 2)
  let count = 1
  /** The nodes on the path to the last text, by depth. */
  const trail: number[] = [0]
  let before = 0
  let last = 0
  const close = (depth: number): void => {
    for (; depth <= last; depth++) ends[trail[depth]!] = count
  }
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!
    const begin = begins[token]!
    const length = begins[token + 1]! - begin
    let depth = 0
    while (depth < last && depth < length && text[begin + depth] === text[before + depth]) depth++
    close(depth + 1)
    while (depth < length) {
      bytes[count] = text[begin + depth++]!
      starts[count] = at
      trail[depth] = count++
    }
    before = begin
    last = length
  }
  close(0)
  starts[count] = tokens.length
  return {
    bytes: bytes.slice(0, count),
    ends: ends.slice(0, count),
    tokens,
    starts: starts.slice(0, count + 1),
  }
}

/** Up to this many tokens are sorted by insertion. */
const few = 24

const isLittleEndian = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1
/** A sort key has this many bytes of a text, and below them the token's place in the list. */
const keyBytes = 5
const placeBits = 24

/**
 * Sorts tokens whose texts, padded with zeros, are equal before `depth`. The sort is stable. Sorting by numeric keys is
 * several times as fast as with a comparing function.
 */
function sortTokens(texts: TokenTexts, tokens: Uint32Array, depth: number): void {
  const { bytes, starts } = texts
  const keys = new BigUint64Array(tokens.length)
  const words = new Uint32Array(keys.buffer)
  const [low, high] = isLittleEndian ? [0, 1] : [1, 0]
  let hasMore = false
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!
    const from = starts[token]! + depth
    const left = starts[token + 1]! - from
    hasMore ||= left > 0
    let key = 0
    for (let nth = 0; nth < 4; nth++) key = (key << 8) | (nth < left ? bytes[from + nth]! : 0)
    words[2 * at + high] = key
    const last = left < keyBytes ? 0 : bytes[from + keyBytes - 1]!
    words[2 * at + low] = (last << placeBits) | at
  }
  if (!hasMore) return sortFew(texts, tokens, 0, tokens.length)
  keys.sort()
  const before = tokens.slice()
  const isSame = (at: number, other: number): boolean =>
    words[2 * at + high] === words[2 * other + high] &&
    words[2 * at + low]! >>> placeBits === words[2 * other + low]! >>> placeBits
  for (let from = 0, at = 0; at < tokens.length; at++) {
    tokens[at] = before[words[2 * at + low]! & (2 ** placeBits - 1)]!
    if (at + 1 < tokens.length && isSame(at, at + 1)) continue
    const size = at + 1 - from
    if (size > few) sortTokens(texts, tokens.subarray(from, at + 1), depth + keyBytes)
    else if (size > 1) sortFew(texts, tokens, from, at + 1)
    from = at + 1
  }
}

function sortFew(
  { bytes, starts }: TokenTexts,
  tokens: Uint32Array,
  from: number,
  to: number,
): void {
  const isBefore = (left: TokenId, right: TokenId): boolean => {
    let [one, other] = [starts[left]!, starts[right]!]
    const [end, otherEnd] = [starts[left + 1]!, starts[right + 1]!]
    while (one < end && other < otherEnd && bytes[one] === bytes[other]) {
      one++
      other++
    }
    return other < otherEnd && (one === end || bytes[one]! < bytes[other]!)
  }
  for (let at = from + 1; at < to; at++) {
    const token = tokens[at]!
    let place = at
    for (; place > from && isBefore(token, tokens[place - 1]!); place--) {
      tokens[place] = tokens[place - 1]!
    }
    tokens[place] = token
  }
}

/** The bytes that may follow this text in the texts of tokens. */
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
