import { CllmError, type OutputConstraint } from '@cllm/core'
import { LRUCache } from 'lru-cache'
import type { NativeGrammar } from '../native.js'
import { checkGbnf } from './check-gbnf.js'
import { refused } from './refuse.js'
import { jsonGbnf, schemaToGbnf, triggeredGbnf } from './schema-to-gbnf.js'

/** Characters of the constraints whose grammars are kept. */
const cacheSize = 4_000_000

/** What a constraint asks of the output. */
export interface ConstraintGrammar {
  /** The grammar holds from the end of its first match on; without it, from the beginning. */
  readonly trigger: RegExp | undefined
  /** The grammar of a text that begins with so many free characters. */
  after(skipped: number): NativeGrammar
}

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
  of(constraint: OutputConstraint): ConstraintGrammar {
    const key = JSON.stringify(constraint)
    const after = (skipped: number) => this.#grammar(constraint, skipped, key)
    after(0)
    const isTriggered = constraint.type === 'triggered-json'
    return { trigger: isTriggered ? new RegExp(constraint.trigger) : undefined, after }
  }

  #grammar(constraint: OutputConstraint, skipped: number, constraintKey: string): NativeGrammar {
    const key = skipped === 0 ? constraintKey : `${skipped}${constraintKey}`
    const known = this.#grammars.get(key)
    if (known !== undefined) return known
    const grammar = this.#make(constraint, skipped)
    this.#grammars.set(key, grammar, { size: key.length })
    return grammar
  }

  #make(constraint: OutputConstraint, skipped: number): NativeGrammar {
    const isGbnf = constraint.type === 'gbnf'
    const root = isGbnf ? (constraint.root ?? 'root') : 'root'
    if (isGbnf) checkGbnf(constraint.grammar, root)
    try {
      return this.#parse(gbnfOf(constraint, skipped), root)
    } catch (cause) {
      if (CllmError.isInstance(cause)) throw cause
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw refused(`llama.cpp cannot use the grammar: ${reason}`, { reason })
    }
  }
}

function gbnfOf(constraint: OutputConstraint, skipped: number): string {
  switch (constraint.type) {
    case 'gbnf':
      return constraint.grammar
    case 'json':
      return jsonGbnf()
    case 'json-schema':
      return schemaToGbnf(constraint.schema)
    case 'triggered-json':
      return triggeredGbnf(constraint, skipped)
  }
}
