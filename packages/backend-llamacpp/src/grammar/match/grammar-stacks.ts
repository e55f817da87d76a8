import { entryOf } from '@cllm/core/defined'
import type { CllmError } from '@cllm/core/errors'
import {
  afterElement,
  alternativesOf,
  charactersAt,
  ElementKind,
  endsAlternative,
  type GbnfRules,
} from '../gbnf/gbnf-rules.js'
import { type CodePointSet, covers, meets } from '../pattern/code-point-set.js'
import { grammarLimits, refused } from '../refuse.js'

/**
 * One way to read the text so far: the element of the grammar that must come next is on top, and below it is the stack
 * of what comes later. It is an index in a {@link GrammarStacks}. 0 waits for nothing: the text may end there.
 */
export type Stack = number

/** How far a text in UTF-8 has been read, in all ways at once. In one graph, equal places are the same object. */
export interface TextPlace {
  readonly stacks: readonly Stack[]
  /** The bits so far of an incomplete character. */
  readonly code: number
  /** The number of its missing bytes; 0 between characters. */
  readonly left: number
  /** The known places behind each byte; null: the byte may not come; undefined: not known yet. */
  readonly behind: (TextPlace | null | undefined)[]
}

/** The number of stacks, of about 100 bytes each, from which on a graph is replaced. */
const mostStacks = 20_000
/** A {@link TextPlace} with its known places counts as this many stacks. */
const stacksOfPlace = 8

/** Stands in place of a character's bits if all its possible completions are allowed. */
const anyCode = -1
/** The lowest code point with this number of bytes behind the first one. */
const leastWith = [0, 0x80, 0x800, 0x1_0000] as const
const surrogates = [0xd800, 0xdfff] as const

/**
 * The stacks of a pushdown automaton (llama.cpp's `llama_grammar_stack`). Equal stacks share one entry, and the stacks
 * behind each are computed once, so ways to read a text that continue alike cost nothing extra.
 */
export class GrammarStacks {
  // By stack: the stack below, and the element on top.
  readonly #below: Stack[] = [0]
  readonly #tops: number[] = [-1]
  /** By stack: the stacks behind its top, once computed. */
  readonly #next: (readonly Stack[] | undefined)[] = []
  /** By stack: the last walk of {@link #advance} that visited it. */
  readonly #walks: number[] = [0]
  #walk = 0
  /** The stacks by the stack below and the element on top, combined in one number. */
  readonly #known = new Map<number, Stack>()
  /** By element: the characters that it matches. */
  readonly #sets = new Map<number, CodePointSet>()
  readonly #places = new Map<string, TextPlace>()
  #fullSize = mostStacks

  constructor(private readonly rules: GbnfRules) {}

  get size(): number {
    return this.#tops.length + stacksOfPlace * this.#places.size
  }

  /** Whether the graph is so large that it should be replaced. */
  get isFull(): boolean {
    return this.size > this.#fullSize
  }

  /** The stacks at the beginning of a text. */
  first(): readonly Stack[] {
    const roots = [...alternativesOf(this.rules, this.rules.root)]
    return [...new Set(roots.flatMap((at) => this.#advance(this.#push(0, at))))]
  }

  /** Copies stacks from another graph of the same grammar. */
  adopt(from: GrammarStacks, stacks: readonly Stack[]): readonly Stack[] {
    const adopted = new Map<Stack, Stack>([[0, 0]])
    const all = stacks.map((stack) => {
      const trail: Stack[] = []
      for (let at = stack; !adopted.has(at); at = from.#below[at]!) trail.push(at)
      for (const at of trail.toReversed()) {
        adopted.set(at, this.#push(adopted.get(from.#below[at]!)!, from.#tops[at]!))
      }
      return adopted.get(stack)!
    })
    this.#fullSize = Math.max(mostStacks, 2 * this.size)
    return all
  }

  /** The element that a stack waits for. */
  top(stack: Stack): number {
    return this.#tops[stack]!
  }

  /** The stacks behind the element that a stack waits for. */
  next(stack: Stack): readonly Stack[] {
    const known = this.#next[stack]
    if (known !== undefined) return known
    const behind = afterElement(this.rules, this.#tops[stack]!)
    const stacks = this.#advance(this.#push(this.#below[stack]!, behind))
    this.#next[stack] = stacks
    return stacks
  }

  /** The stacks behind a character; none if no stack waits for it. */
  after(stacks: readonly Stack[], code: number): readonly Stack[] {
    return this.#nextOfAll(stacks.filter((stack) => this.waitsFor(stack, code, code)))
  }

  /** The place with these stacks; returns the same object each time. */
  place(stacks: readonly Stack[], code = 0, left = 0): TextPlace {
    const key = `${code} ${left} ${stacks.toSorted((a, b) => a - b).join()}`
    return entryOf(this.#places, key, () => ({ stacks, code, left, behind: [] }))
  }

  /** The place behind a byte; null: the byte may not come. */
  read(place: TextPlace, byte: number): TextPlace | null {
    return (place.behind[byte] ??= this.#read(place, byte))
  }

  /** Whether a stack waits for a character of this range. */
  waitsFor(stack: Stack, low: number, high: number): boolean {
    if (stack === 0) return false
    const { kinds, values } = this.rules
    const at = this.#tops[stack]!
    const isSingle =
      kinds[at] === ElementKind.Character &&
      kinds[at + 1] !== ElementKind.RangeEnd &&
      kinds[at + 1] !== ElementKind.OtherCharacter
    if (isSingle) return low <= values[at]! && values[at]! <= high
    return meets(this.characters(stack), low, high)
  }

  /** The characters that a stack waits for; none at an end, and if it waits for a token. */
  characters(stack: Stack): CodePointSet {
    if (stack === 0) return []
    const at = this.#tops[stack]!
    // Without a closure, as walks over all tokens call this at each character.
    let set = this.#sets.get(at)
    if (set === undefined) {
      set = charactersAt(this.rules, at)
      this.#sets.set(at, set)
    }
    return set
  }

  /**
   * A byte may come if it continues the UTF-8 of a character that the grammar waits for. Overlong encodings and halves
   * of surrogate pairs are not allowed.
   */
  #read({ stacks, code, left }: TextPlace, byte: number): TextPlace | null {
    if (left === 0) return this.#readFirst(stacks, byte)
    // bytes that continue a character begin with these bits
    if ((byte & 0xc0) !== 0x80) return null
    const isLast = left === 1
    if (code === anyCode) {
      if (!isLast) return this.place(stacks, anyCode, left - 1)
      return this.#placeBehind(this.#nextOfAll(stacks))
    }
    const bits = (code << 6) | (byte & 0x3f)
    if (isLast) return this.#placeBehind(this.after(stacks, bits))
    return this.#within(stacks, bits, left - 1, leastWith[left]!)
  }

  #readFirst(stacks: readonly Stack[], byte: number): TextPlace | null {
    // NUL ends texts, for llama.cpp and many programs that read them
    if (byte === 0) return null
    if (byte < 0x80) return this.#placeBehind(this.after(stacks, byte))
    // no other byte can begin a character
    if (byte < 0xc2 || byte > 0xf4) return null
    const left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3
    return this.#within(stacks, byte & (0x3f >> left), left, leastWith[left])
  }

  /** The place within a character that begins with these bits and is not below `least`; null: no stack waits for it. */
  #within(stacks: readonly Stack[], code: number, left: number, least: number): TextPlace | null {
    const bits = 6 * left
    const [first, last] = [code << bits, (code << bits) + (1 << bits) - 1]
    const low = Math.max(least, first)
    let high = Math.min(last, 0x10_ffff)
    const [firstHalf, lastHalf] = surrogates
    if (firstHalf <= high && high <= lastHalf) high = firstHalf - 1
    if (low > high) return null
    const waiting = stacks.filter((stack) => this.waitsFor(stack, low, high))
    if (waiting.length === 0) return null
    const isAny =
      low === first &&
      high === last &&
      waiting.every((stack) => covers(this.characters(stack), low, high))
    return this.place(waiting, isAny ? anyCode : code, left)
  }

  #placeBehind(stacks: readonly Stack[]): TextPlace | null {
    return stacks.length === 0 ? null : this.place(stacks)
  }

  #nextOfAll(stacks: readonly Stack[]): readonly Stack[] {
    if (stacks.length === 1) return this.next(stacks[0]!)
    const merged = new Set<Stack>()
    for (const stack of stacks) {
      for (const next of this.next(stack)) merged.add(next)
      if (merged.size > grammarLimits.readings) throw tooManyReadings()
    }
    return [...merged]
  }

  /** Replaces rules on top with the elements that they begin with, like `llama_grammar_advance_stack`. */
  #advance(from: Stack): readonly Stack[] {
    const { kinds, values } = this.rules
    if (from === 0 || kinds[this.#tops[from]!] !== ElementKind.Rule) return [from]
    const walk = ++this.#walk
    const stacks: Stack[] = []
    const todo = [from]
    let steps = 0
    for (let stack = todo.pop(); stack !== undefined; stack = todo.pop()) {
      if (this.#walks[stack] === walk) continue
      this.#walks[stack] = walk
      if (++steps > grammarLimits.advanceSteps) throw this.#tooLong(stack)
      const top = this.#tops[stack]!
      if (stack === 0 || kinds[top] !== ElementKind.Rule) {
        stacks.push(stack)
        if (stacks.length > grammarLimits.readings) throw tooManyReadings()
        continue
      }
      const rest = this.#push(this.#below[stack]!, top + 1)
      for (const at of alternativesOf(this.rules, values[top]!)) todo.push(this.#push(rest, at))
    }
    return stacks
  }

  /** Returns the stack with this element on top, or `below` if the alternative ends there. */
  #push(below: Stack, at: number): Stack {
    const { kinds } = this.rules
    if (endsAlternative(kinds[at]!)) return below
    const key = below * kinds.length + at
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const stack = this.#tops.push(at) - 1
    this.#walks.push(0)
    this.#below.push(below)
    this.#known.set(key, stack)
    return stack
  }

  #tooLong(stack: Stack) {
    const { kinds, values, names } = this.rules
    const top = this.#tops[stack] ?? 0
    const rule = kinds[top] === ElementKind.Rule ? ` (at the rule ${names[values[top]!]})` : ''
    const limit = grammarLimits.advanceSteps
    return tooAmbiguous(`more than ${limit} steps from one character to the next${rule}`, limit)
  }
}

/** The error for a grammar that takes too much work. */
export const tooAmbiguous = (reason: string, limit: number): CllmError =>
  refused('The grammar is too ambiguous', reason, { limit })

/** The error for a text that can be read in too many ways. */
const tooManyReadings = (): CllmError =>
  tooAmbiguous(
    `a text can be read in more than ${grammarLimits.readings} ways`,
    grammarLimits.readings,
  )
