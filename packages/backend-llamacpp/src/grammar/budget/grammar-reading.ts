import type { CountedGrammar } from './counted-grammar.js'
import { grammarLimits } from './grammar-limits.js'
import { type Stack, tooAmbiguous } from './grammar-stacks.js'
import { ElementKind, matchesCharacter } from '../gbnf/gbnf-rules.js'

/**
 * The readings of a growing text, as llama.cpp computes them. They are found here first, so that
 * llama.cpp never starts on an expensive step.
 */
export class GrammarReading {
  readonly #grammar: CountedGrammar
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #stacks: readonly Stack[]

  constructor(grammar: CountedGrammar) {
    this.#grammar = grammar
    this.#stacks = grammar.first
  }

  /** Whether the grammar allows some text that begins with this one. */
  get isPossible(): boolean {
    return this.#stacks.length > 0
  }

  /** Whether to start over with {@link CountedGrammar.anew}, because the graph is full. */
  get isStale(): boolean {
    return this.#grammar.graph.isFull
  }

  /**
   * Advances over a token.
   * @throws CllmError `invalid_constraint` when there are too many readings
   */
  accept(token: number, bytes: Uint8Array): void {
    const { graph, rules } = this.#grammar
    const after = new Set<Stack>()
    let byText: Stack[] = []
    for (const stack of this.#stacks) {
      if (stack === 0) continue
      const top = graph.top(stack)
      const kind = rules.kinds[top]
      if (kind !== ElementKind.Token && kind !== ElementKind.NotToken) byText.push(stack)
      else if ((rules.values[top] === token) === (kind === ElementKind.Token)) {
        for (const next of graph.next(stack)) after.add(next)
      }
    }
    for (const character of this.#decoder.decode(bytes, { stream: true })) {
      byText = this.#read(byText, character.codePointAt(0)!)
    }
    for (const stack of byText) after.add(stack)
    this.#stacks = [...after]
    this.#grammar.check(this.#stacks)
  }

  /**
   * Checks that the next draw stays within the limits.
   * @throws CllmError `invalid_constraint`
   */
  check(): void {
    this.#grammar.cost?.check(this.#stacks)
  }

  #read(stacks: readonly Stack[], code: number): Stack[] {
    const { graph, rules } = this.#grammar
    const after = new Set<Stack>()
    for (const stack of stacks) {
      if (stack === 0 || !matchesCharacter(rules, graph.top(stack), code)) continue
      for (const next of graph.next(stack)) after.add(next)
      if (after.size > grammarLimits.readings) throw tooAmbiguous()
    }
    return [...after]
  }
}
