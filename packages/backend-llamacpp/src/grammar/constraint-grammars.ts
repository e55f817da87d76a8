import { createHash } from 'node:crypto'
import { CllmError, type OutputConstraint } from '@cllm/core'
import { LRUCache } from 'lru-cache'
import type { NativeGrammar } from '../native/native.js'
import type { Vocabulary } from '../text/vocabulary.js'
import { CountedGrammar } from './budget/counted-grammar.js'
import { GrammarReading } from './budget/grammar-reading.js'
import { refused, refusedSchema, smaller } from './refuse.js'
import { regexGbnf } from './pattern/regex-to-gbnf.js'
import { jsonGbnf, schemaToGbnf, triggeredGbnf } from './schema/schema-to-gbnf.js'
import { buildTokenTrie, type TokenTrie } from './budget/token-trie.js'

/** Bytes of all cached grammars. */
const cacheSize = 128 * 2 ** 20
/** Bytes that the graph of one and its counted draws take at most: 20,000 stacks, 200,000 characters. */
const countedSize = 2.5 * 2 ** 20

/** A grammar parsed by llama.cpp, with the means to bound its cost. */
export interface CheckedGrammar {
  readonly native: NativeGrammar
  /** Starts reading a new text. */
  read(): GrammarReading
}

/** A compiled constraint. */
export interface ConstraintGrammar {
  /** The grammar holds from the end of its first match on; without it, from the beginning. */
  readonly trigger: RegExp | undefined
  /** The grammar of a text that begins with `skipped` unconstrained characters. */
  after(skipped: number): CheckedGrammar
}

/** Compiles constraints to grammars and caches the most recently used grammars. */
export class ConstraintGrammars {
  readonly #parse: (gbnf: string, root: string) => NativeGrammar
  readonly #vocabulary: Pick<Vocabulary, 'size' | 'bytes'>
  #trie: TokenTrie | undefined
  readonly #grammars = new LRUCache<string, CheckedGrammar>({
    maxSize: cacheSize,
    dispose: ({ native }) => native.free?.(),
  })

  /**
   * @param parse - throws if the text is not a grammar
   * @param vocabulary - of the model
   */
  constructor(
    parse: (gbnf: string, root: string) => NativeGrammar,
    vocabulary: Pick<Vocabulary, 'size' | 'bytes'>,
  ) {
    this.#parse = parse
    this.#vocabulary = vocabulary
  }

  /**
   * The grammar of a constraint.
   * @throws CllmError `invalid_constraint`
   */
  of(constraint: OutputConstraint): ConstraintGrammar {
    const key = bounded(constraint, () => keyOf(constraint))
    const after = (skipped: number) => this.#grammar(constraint, skipped, key)
    after(0)
    const isTriggered = constraint.type === 'triggered-json'
    return { trigger: isTriggered ? new RegExp(constraint.trigger) : undefined, after }
  }

  #grammar(constraint: OutputConstraint, skipped: number, constraintKey: string): CheckedGrammar {
    const key = `${skipped}${constraintKey}`
    const known = this.#grammars.get(key)
    if (known !== undefined) return known
    const { grammar, size } = bounded(constraint, () => this.#make(constraint, skipped))
    this.#grammars.set(key, grammar, { size })
    return grammar
  }

  #make(
    constraint: OutputConstraint,
    skipped: number,
  ): { readonly grammar: CheckedGrammar; readonly size: number } {
    const root = constraint.type === 'gbnf' ? (constraint.root ?? 'root') : 'root'
    const gbnf = gbnfOf(constraint, skipped)
    const vocabulary = this.#vocabulary
    const trie = () =>
      (this.#trie ??= buildTokenTrie(vocabulary.size, (token) => vocabulary.bytes(token)))
    let counted = CountedGrammar.parse(gbnf, root, vocabulary.size, trie)
    const native = this.#parse(gbnf, root)
    const read = () => {
      if (counted.graph.isFull) counted = counted.anew()
      return new GrammarReading(counted)
    }
    const { kinds, starts } = counted.rules
    // llama.cpp has the text twice, and each rule as a list of its own.
    const size = countedSize + 4 * gbnf.length + 16 * kinds.length + 64 * starts.length
    return { grammar: { native, read }, size }
  }
}

/** Turns failures of `make`, stack overflow included, into `invalid_constraint`. */
function bounded<T>(constraint: OutputConstraint, make: () => T): T {
  try {
    return make()
  } catch (cause) {
    const isOfSchema = constraint.type === 'json-schema' || constraint.type === 'triggered-json'
    const error = CllmError.isInstance(cause) ? cause : problemOf(cause)
    const { pointer, reason } = error.details
    if (!isOfSchema || pointer !== undefined || typeof reason !== 'string') throw error
    // the grammar that a schema becomes has no places that its author knows
    throw refusedSchema('#', `it becomes too large a grammar: ${reason}. ${smaller}`)
  }
}

function problemOf(cause: unknown): CllmError {
  if (cause instanceof RangeError) {
    const reason = 'it is nested too deeply'
    return refused(`The constraint cannot be used: ${reason}`, { reason })
  }
  const reason = cause instanceof Error ? cause.message : String(cause)
  return refused(`llama.cpp cannot use the grammar: ${reason}`, { reason })
}

/** Short, however large the constraint is. */
function keyOf(constraint: OutputConstraint): string {
  return createHash('sha256').update(JSON.stringify(constraint)).digest('base64')
}

function gbnfOf(constraint: OutputConstraint, skipped: number): string {
  switch (constraint.type) {
    case 'gbnf':
      return constraint.grammar
    case 'regex':
      return regexGbnf(constraint.pattern)
    case 'json':
      return jsonGbnf()
    case 'json-schema':
      return schemaToGbnf(constraint.schema, constraint)
    case 'triggered-json':
      return triggeredGbnf(constraint, skipped)
  }
}
