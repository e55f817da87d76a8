import type { TokenId } from '@cllm/core'

/**
 * The texts of all tokens as a tree of their characters, each node in front of those below it: a walk
 * goes from index to index.
 */
export interface TokenTrie {
  /** The character that leads to a node. */
  readonly codes: Uint32Array
  /** The index behind all nodes below a node. */
  readonly ends: Uint32Array
  /** Tokens that end at a node or below it. */
  readonly tokens: Uint32Array
  /** Characters of all tokens. */
  readonly characters: number
}

const decoder = new TextDecoder()

/** @param bytes - the text of a token, empty when it has none */
export function buildTokenTrie(size: number, bytes: (token: TokenId) => Uint8Array): TokenTrie {
  const texts: string[] = []
  let most = 1
  let characters = 0
  for (let token = 0; token < size; token++) {
    const text = decoder.decode(bytes(token))
    if (text === '') continue
    texts.push(text)
    most += text.length
  }
  texts.sort()
  const codes = new Uint32Array(most)
  const ends = new Uint32Array(most)
  const tokens = new Uint32Array(most)
  let count = 1
  /** The nodes that lead to the last text. */
  const trail: number[] = [0]
  for (const text of texts) {
    let depth = 0
    for (const character of text) {
      const code = character.codePointAt(0)!
      const known = trail[depth + 1]
      if (known === undefined || codes[known] !== code) {
        for (const node of trail.splice(depth + 1)) ends[node] = count
        codes[count] = code
        trail.push(count++)
      }
      depth++
    }
    for (const node of trail.splice(depth + 1)) ends[node] = count
    for (const node of trail) tokens[node]!++
    characters += depth
  }
  for (const node of trail) ends[node] = count
  const cut = (list: Uint32Array) => list.slice(0, count)
  return { codes: cut(codes), ends: cut(ends), tokens: cut(tokens), characters }
}
