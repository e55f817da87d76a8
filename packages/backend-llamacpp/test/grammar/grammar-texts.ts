import type { JsonSchema } from '@cllm/core'
import { parseGbnf } from '../../src/grammar/gbnf/gbnf-parser.js'
import { charactersAt, type GbnfRules } from '../../src/grammar/gbnf/gbnf-rules.js'
import { GrammarStacks, type Stack } from '../../src/grammar/match/grammar-stacks.js'
import { schemaToGbnf } from '../../src/grammar/schema/schema-to-gbnf.js'

/** From here on whatever ends something is likelier. */
const patience = 150

/** The texts that a schema's grammar allows, without a model. */
export class GrammarTexts {
  readonly #rules: GbnfRules
  readonly #graph: GrammarStacks

  constructor(schema: JsonSchema, around?: Parameters<typeof schemaToGbnf>[1]) {
    this.#rules = parseGbnf(schemaToGbnf(schema, around), 'root')
    this.#graph = new GrammarStacks(this.#rules)
  }

  /** Whether the grammar allows a text. */
  allows(text: string): boolean {
    let stacks: readonly Stack[] = this.#graph.first()
    for (const character of text) stacks = this.#graph.after(stacks, character.codePointAt(0)!)
    return stacks.includes(0)
  }

  /**
   * A random text; undefined where it has not ended after `most` characters.
   * @param random - a number from 0 up to 1
   */
  draw(random: () => number, most = 600): string | undefined {
    let stacks: readonly Stack[] = this.#graph.first()
    let text = ''
    for (let count = 0; count < most; count++) {
      if (stacks.includes(0) && (stacks.length === 1 || random() < 0.5)) return text
      const code = this.#pick(
        stacks.filter((stack) => stack !== 0),
        random,
        count > patience,
      )
      text += String.fromCodePoint(code)
      stacks = this.#graph.after(stacks, code)
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

  #charactersOf(stack: Stack) {
    return charactersAt(this.#rules, this.#graph.top(stack))
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
