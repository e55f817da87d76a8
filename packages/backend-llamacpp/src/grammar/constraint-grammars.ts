import type { OutputConstraint } from '@cllm/core'
import { LRUCache } from 'lru-cache'
import type { NativeGrammar } from '../native.js'
import { checkGbnf } from './check-gbnf.js'
import { refused } from './refuse.js'
import { jsonGbnf, schemaToGbnf } from './schema-to-gbnf.js'

/** Characters of the constraints whose grammars are kept. */
const cacheSize = 4_000_000

/** Makes grammars of constraints, and keeps those that were used last. */
export class ConstraintGrammars {
  readonly #parse: (gbnf: string, root: string) => NativeGrammar
  readonly #grammars = new LRUCache<string, NativeGrammar>({ maxSize: cacheSize })

  /** @param parse - throws for what is no grammar */
  constructor(parse: (gbnf: string, root: string) => NativeGrammar) {
    this.#parse = parse
  }

  /**
   * The grammar of a constraint.
   * @throws CllmError `invalid_constraint`
   */
  of(constraint: OutputConstraint): NativeGrammar {
    const key = JSON.stringify(constraint)
    const known = this.#grammars.get(key)
    if (known !== undefined) return known
    const grammar = this.#make(constraint)
    this.#grammars.set(key, grammar, { size: key.length })
    return grammar
  }

  #make(constraint: OutputConstraint): NativeGrammar {
    const { type } = constraint
    const root = type === 'gbnf' ? (constraint.root ?? 'root') : 'root'
    if (type === 'gbnf') checkGbnf(constraint.grammar, root)
    const gbnf =
      type === 'gbnf'
        ? constraint.grammar
        : type === 'json'
          ? jsonGbnf()
          : schemaToGbnf(constraint.schema)
    try {
      return this.#parse(gbnf, root)
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw refused(`llama.cpp cannot use the grammar: ${reason}`, { reason })
    }
  }
}
