import { grammarLimits } from './grammar-limits.js'
import {
  afterElement,
  alternativesOf,
  ElementKind,
  endsAlternative,
  type GbnfRules,
} from '../gbnf/gbnf-rules.js'
import { refused } from '../refuse.js'

/** The position of a reading: an entry of a {@link GrammarStacks}. 0 is a reading at its end. */
export type Stack = number

/** Stacks in a graph, at about 100 bytes each, before it is replaced. */
const mostStacks = 20_000

/**
 * The stacks of llama.cpp's grammars (`llama_grammar_stack`): elements to come, the next one on top.
 * Equal stacks are one entry, and what follows each is found once.
 */
export class GrammarStacks {
  readonly #rules: GbnfRules
  /** The stack below the top of each. */
  readonly #below: Stack[] = [0]
  /** The element on top of each. */
  readonly #tops: number[] = [-1]
  readonly #depths: number[] = [0]
  readonly #known = new Map<number, Stack>()
  readonly #next: (readonly Stack[] | undefined)[] = []
  readonly #steps: number[] = []
  /** The last walk that came by each. */
  readonly #walks: number[] = [0]
  #walk = 0
  #left: number

  /** @param mostSteps - of all that is found; beyond them it throws */
  constructor(rules: GbnfRules, mostSteps = Infinity) {
    this.#rules = rules
    this.#left = mostSteps
  }

  /** Whether it is large enough to be replaced. */
  get isFull(): boolean {
    return this.#tops.length > mostStacks
  }

  /** Where a text of the whole grammar begins. */
  first(): readonly Stack[] {
    return this.enter(this.#rules.root)
  }

  /** Where a text of this rule begins. Stack 0 is where the rule has ended. */
  enter(rule: number): readonly Stack[] {
    const stacks = new Set<Stack>()
    for (const at of alternativesOf(this.#rules, rule)) {
      for (const stack of this.from(at)) stacks.add(stack)
    }
    return [...stacks]
  }

  /** Where a text begins that matches an alternative from this element on. */
  from(at: number): readonly Stack[] {
    return this.#advance(this.#push(0, at)).stacks
  }

  /** The element that a stack waits for. */
  top(stack: Stack): number {
    return this.#tops[stack]!
  }

  depth(stack: Stack): number {
    return this.#depths[stack]!
  }

  /** Whether {@link next} is known. */
  hasNext(stack: Stack): boolean {
    return this.#next[stack] !== undefined
  }

  /** The stacks behind the element that a stack waits for. */
  next(stack: Stack): readonly Stack[] {
    const known = this.#next[stack]
    if (known !== undefined) return known
    const after = this.#push(this.#below[stack]!, afterElement(this.#rules, this.#tops[stack]!))
    const { stacks, steps } = this.#advance(after)
    this.#next[stack] = stacks
    this.#steps[stack] = steps
    return stacks
  }

  /** How much work {@link next} is for llama.cpp. */
  steps(stack: Stack): number {
    this.next(stack)
    return this.#steps[stack]!
  }

  /** As `llama_grammar_advance_stack`. */
  #advance(from: Stack): { readonly stacks: readonly Stack[]; readonly steps: number } {
    const { kinds, values, starts } = this.#rules
    if (from === 0 || kinds[this.#tops[from]!] !== ElementKind.Rule) {
      return { stacks: [from], steps: 1 + (this.#depths[from]! >> 3) }
    }
    const walk = ++this.#walk
    const stacks: Stack[] = []
    const todo = [from]
    let steps = 0
    for (let stack = todo.pop(); stack !== undefined; stack = todo.pop()) {
      if (this.#walks[stack] === walk) continue
      this.#walks[stack] = walk
      steps += 1 + (this.#depths[stack]! >> 3)
      this.#left--
      if (steps > grammarLimits.advanceSteps || this.#left < 0) throw this.#tooLong(stack)
      const top = this.#tops[stack]!
      if (stack === 0 || kinds[top] !== ElementKind.Rule) {
        stacks.push(stack)
        if (stacks.length > grammarLimits.readings) throw tooAmbiguous()
        continue
      }
      const rest = this.#push(this.#below[stack]!, top + 1)
      let at = starts[values[top]!]!
      todo.push(this.#push(rest, at))
      for (; kinds[at] !== ElementKind.End; at++) {
        if (kinds[at] === ElementKind.Alternative) todo.push(this.#push(rest, at + 1))
      }
    }
    return { stacks, steps }
  }

  /** The stack with this element on top, if the alternative does not end there. */
  #push(below: Stack, at: number): Stack {
    const { kinds } = this.#rules
    if (endsAlternative(kinds[at]!)) return below
    const key = below * kinds.length + at
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const stack = this.#tops.push(at) - 1
    this.#walks.push(0)
    this.#below.push(below)
    this.#depths.push(this.#depths[below]! + 1)
    this.#known.set(key, stack)
    return stack
  }

  #tooLong(stack: Stack) {
    const { kinds, values, names } = this.#rules
    const top = this.#tops[stack] ?? 0
    const rule = kinds[top] === ElementKind.Rule ? ` (at the rule ${names[values[top]!]})` : ''
    const limit = grammarLimits.advanceSteps
    const reason = `more than ${limit} steps from one character to the next${rule}`
    return refused(`The grammar is too ambiguous: ${reason}`, { reason, limit })
  }
}

/** The error for a text that can be read in too many ways. */
export function tooAmbiguous() {
  const limit = grammarLimits.readings
  const reason = `a text can be read in more than ${limit} ways`
  return refused(`The grammar is too ambiguous: ${reason}`, { reason, limit })
}
