import type { GrammarStacks, Stack } from './grammar-stacks.js'

/** How far a text in UTF-8 has been read. */
export interface Place {
  /** What may come next; 0: nothing more. */
  readonly stacks: readonly Stack[]
  /** The bits of a character that has come in part. */
  readonly code: number
  /** How many of its bytes are to come. */
  readonly left: number
}

/** The first characters that take one byte more, by the bytes that are to come. */
const least = [0, 0x80, 0x800, 0x1_0000] as const
const surrogates = [0xd800, 0xdfff] as const

/**
 * The place behind a byte; undefined where it may not come: no character that the grammar waits for goes on
 * like this, or none of Unicode's does. Characters have their shortest spelling, and none is half of a
 * surrogate pair.
 */
export function readByte(graph: GrammarStacks, place: Place, byte: number): Place | undefined {
  const { stacks } = place
  let { code, left } = place
  let low: number
  if (left === 0) {
    // NUL ends texts, for llama.cpp as for many that read them
    if (byte < 0x80) return byte === 0 ? undefined : behindCharacter(graph, stacks, byte)
    if (byte < 0xc2 || byte > 0xf4) return undefined
    left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3
    code = byte & (0x3f >> left)
    low = least[left]!
  } else {
    if ((byte & 0xc0) !== 0x80) return undefined
    code = (code << 6) | (byte & 0x3f)
    left--
    if (left === 0) return behindCharacter(graph, stacks, code)
    low = least[left + 1]!
  }
  const bits = 6 * left
  low = Math.max(low, code << bits)
  let high = Math.min((code << bits) + (1 << bits) - 1, 0x10_ffff)
  const [firstHalf, lastHalf] = surrogates
  if (firstHalf <= high && high <= lastHalf) high = firstHalf - 1
  if (low > high || !stacks.some((stack) => graph.waitsFor(stack, low, high))) return undefined
  return { stacks, code, left }
}

function behindCharacter(
  graph: GrammarStacks,
  stacks: readonly Stack[],
  code: number,
): Place | undefined {
  const next = graph.after(stacks, code)
  return next.length === 0 ? undefined : { stacks: next, code: 0, left: 0 }
}
