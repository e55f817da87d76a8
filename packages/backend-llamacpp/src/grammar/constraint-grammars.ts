import { createHash } from 'node:crypto'
import { CllmError, entryOf, type OutputConstraint } from '@cllm/core'
import { LRUCache } from 'lru-cache'
import type { Vocabulary } from '../text/vocabulary.js'
import { parseGbnf } from './gbnf/gbnf-parser.js'
import { grammarText } from './gbnf/gbnf-writer.js'
import { type GrammarTokens, TokenGrammar } from './match/token-grammar.js'
import { buildTokenTrie, type TokenTrie } from './match/token-trie.js'
import { regexRule } from './pattern/automaton-rule.js'
import { refused, refusedSchema, smaller } from './refuse.js'
import { jsonGbnf, schemaToGbnf, triggeredGbnf } from './schema/schema-to-gbnf.js'

/** The size of the cache in bytes. */
const cacheSize = 128 * 2 ** 20

/** A compiled constraint. Hold on to it while it is in use, as the cache may evict it. */
export interface ConstraintGrammar {
  /** The grammar applies from the end of the trigger's first match on; without a trigger, from the beginning. */
  readonly trigger: RegExp | undefined
  readonly grammar: TokenGrammar
}

/** Compiles constraints to grammars and caches the most recently used grammars. */
export class ConstraintGrammars {
  readonly #tokens: GrammarTokens
  readonly #known = new LRUCache<string, ConstraintGrammar>({
    maxSize: cacheSize,
    sizeCalculation: ({ grammar }) => grammar.mostBytes,
  })

  /**
   * @param vocabulary - the model's vocabulary
   * @param encode - returns the tokens of a text that continues another one
   */
  constructor(
    vocabulary: Pick<Vocabulary, 'size' | 'bytes' | 'texts' | 'endOfGeneration'>,
    encode: GrammarTokens['encode'],
  ) {
    const { size, endOfGeneration } = vocabulary
    let trie: TokenTrie | undefined
    this.#tokens = {
      size,
      endOfGeneration,
      bytes: (token) => vocabulary.bytes(token),
      get trie() {
        return (trie ??= buildTokenTrie(vocabulary.texts, (token) => !endOfGeneration.has(token)))
      },
      encode,
    }
  }

  /**
   * Returns the grammar of a constraint, from the cache or compiled.
   * @throws CllmError `invalid_constraint`
   */
  of(constraint: OutputConstraint): ConstraintGrammar {
    const compile = () => this.#compiled(constraint)
    return bounded(constraint, () =>
      entryOf<string, ConstraintGrammar>(this.#known, keyOf(constraint), compile),
    )
  }

  #compiled(constraint: OutputConstraint): ConstraintGrammar {
    const root = constraint.type === 'gbnf' ? (constraint.root ?? 'root') : 'root'
    const rules = parseGbnf(gbnfOf(constraint), root, this.#tokens)
    const grammar = new TokenGrammar(rules, this.#tokens)
    // finds out now whether the grammar takes too long, so that it is refused before any token is computed
    grammar.mask(grammar.begin())
    const isTriggered = constraint.type === 'triggered-json'
    return { trigger: isTriggered ? new RegExp(constraint.trigger) : undefined, grammar }
  }
}

/** Turns failures of `make`, stack overflow included, into `invalid_constraint`. */
function bounded<T>(constraint: OutputConstraint, make: () => T): T {
  try {
    return make()
  } catch (cause) {
    const isOfSchema = constraint.type === 'json-schema' || constraint.type === 'triggered-json'
    if (cause instanceof RangeError) {
      const reason = 'it is nested too deeply'
      throw isOfSchema ? tooLarge(reason) : refused('The constraint cannot be used', reason)
    }
    if (!CllmError.isInstance(cause) || !isOfSchema) throw cause
    const { pointer, reason } = cause.details
    if (pointer !== undefined || typeof reason !== 'string') throw cause
    throw tooLarge(reason)
  }
}

/** The error if a schema's grammar is refused. It names no place in the grammar, which the author does not know. */
const tooLarge = (reason: string): CllmError =>
  refusedSchema('#', `it becomes too large a grammar: ${reason}. ${smaller}`)

/** The cache's key: a hash, as constraints may be large. */
const keyOf = (constraint: OutputConstraint): string =>
  createHash('sha256').update(JSON.stringify(constraint)).digest('base64')

function gbnfOf(constraint: OutputConstraint): string {
  switch (constraint.type) {
    case 'gbnf':
      return constraint.grammar
    case 'regex':
      return grammarText((writer) => regexRule(writer, constraint.pattern))
    case 'json':
      return jsonGbnf()
    case 'json-schema':
      return schemaToGbnf(constraint.schema, constraint)
    case 'triggered-json':
      return triggeredGbnf(constraint)
  }
}
