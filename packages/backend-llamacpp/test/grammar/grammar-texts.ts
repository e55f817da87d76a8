import type { JsonSchema } from '@cllm/core'
import { CountedGrammar } from '../../src/grammar/budget/counted-grammar.js'
import { charactersAt } from '../../src/grammar/budget/known-sets.js'
import type { Stack } from '../../src/grammar/budget/grammar-stacks.js'
import { buildTokenTrie } from '../../src/grammar/budget/token-trie.js'
import { schemaToGbnf } from '../../src/grammar/schema/schema-to-gbnf.js'

const trie = buildTokenTrie(1, () => new TextEncoder().encode('a'))
/** From here on whatever ends something is likelier. */
const patience = 150

/** The texts that a schema's grammar allows, without a model. */
export class GrammarTexts {
  readonly #grammar: CountedGrammar

  constructor(schema: JsonSchema, around?: Parameters<typeof schemaToGbnf>[1]) {
    this.#grammar = CountedGrammar.parse(schemaToGbnf(schema, around), 'root', 1, () => trie)
  }

  /** Whether the grammar allows a text. */
  allows(text: string): boolean {
    let stacks: readonly Stack[] = this.#grammar.first
    for (const character of text) stacks = this.#after(stacks, character.codePointAt(0)!)
    return stacks.includes(0)
  }

  /**
   * A random text; undefined where it has not ended after `most` characters.
   * @param random - a number from 0 up to 1
   */
  draw(random: () => number, most = 600): string | undefined {
    let stacks: readonly Stack[] = this.#grammar.first
    let text = ''
    for (let count = 0; count < most; count++) {
      if (stacks.includes(0) && (stacks.length === 1 || random() < 0.5)) return text
      const code = this.#pick(
        stacks.filter((stack) => stack !== 0),
        random,
        count > patience,
      )
      text += String.fromCodePoint(code)
      stacks = this.#after(stacks, code)
    }
    return undefined
  }

  #pick(stacks: readonly Stack[], random: () => number, isLate: boolean): number {
    const some = stacks[Math.floor(random() * stacks.length)]!
    const all = this.#charactersOf(some)
    const endings = Array.from('"]},n', (sign) => sign.charCodeAt(0)).filter((code) =>
      all.some(([first, last]) => code >= first && code <= last),
    )
    if (isLate && endings.length > 0 && random() < 0.7) return endings[0]!
    const ascii = all.flatMap(([first, last]) =>
      first < 0x7f ? [[first, Math.min(last, 0x7e)] as const] : [],
    )
    const ranges = ascii.length > 0 && random() < 0.9 ? ascii : all
    const [first, last] = ranges[Math.floor(random() * ranges.length)]!
    return first + Math.floor(random() * (last - first + 1))
  }

  #after(stacks: readonly Stack[], code: number): readonly Stack[] {
    const next = new Set<Stack>()
    for (const stack of stacks) {
      if (stack === 0) continue
      const isAllowed = this.#charactersOf(stack).some(
        ([first, last]) => code >= first && code <= last,
      )
      if (isAllowed) for (const one of this.#grammar.graph.next(stack)) next.add(one)
    }
    return [...next]
  }

  #charactersOf(stack: Stack) {
    const { graph, rules } = this.#grammar
    return charactersAt(rules, graph.top(stack))!
  }
}

/** Numbers from 0 up to 1 that are the same for each seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
