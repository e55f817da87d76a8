import { createHash } from 'node:crypto'
import { CllmError, type OutputConstraint } from '@cllm/core'
import { LRUCache } from 'lru-cache'
import type { Vocabulary } from '../text/vocabulary.js'
import { bounded, compileConstraint } from './compile-constraint.js'
import { CompileThread } from './compile-thread.js'
import { CompileTurns } from './compile-turns.js'
import { type GrammarTokens, TokenGrammar } from './match/token-grammar.js'
import { buildTokenTrie, type TokenTrie } from './match/token-trie.js'
import { grammarLimits, littleWork, MoreWork, type WorkLimits } from './refuse.js'

/** From this many tokens on, the tree of their texts takes so long that steps come in between. */
const manyTokens = 32_768
/** Beyond this many characters of JSON, as five tools have, a constraint is taken for much work. */
const longText = 4000
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
  #trie: TokenTrie | undefined
  readonly #known = new LRUCache<string, ConstraintGrammar>({
    maxSize: cacheSize,
    sizeCalculation: ({ grammar }) => grammar.mostBytes,
  })
  /** Those that requests wait with, whatever the cache evicts: this thread compiles none of them again. */
  readonly #prepared = new WeakMap<OutputConstraint, ConstraintGrammar>()
  /** There is one at a time; it ends once no constraint waits for it. */
  readonly #thread: CompileThread
  readonly #turns = new CompileTurns()
  #closed: CllmError | undefined

  /**
   * @param vocabulary - the model's vocabulary
   * @param encode - returns the tokens of a text that continues another one
   */
  constructor(
    vocabulary: Pick<Vocabulary, 'size' | 'bytes' | 'texts' | 'endOfGeneration'>,
    encode: GrammarTokens['encode'],
  ) {
    const { size, endOfGeneration, texts } = vocabulary
    const trie = () =>
      (this.#trie ??= buildTokenTrie(texts, (token) => !endOfGeneration.has(token)))
    this.#tokens = {
      size,
      endOfGeneration,
      bytes: (token) => vocabulary.bytes(token),
      get trie() {
        return trie()
      },
      encode,
    }
    this.#thread = new CompileThread(this.#tokens)
  }

  /**
   * Returns the grammar of a constraint, from the cache or compiled.
   * @throws CllmError `invalid_constraint`
   */
  of(constraint: OutputConstraint): ConstraintGrammar {
    return this.#prepared.get(constraint) ?? this.#of(constraint, textOf(constraint), grammarLimits)
  }

  /**
   * Compiles a constraint for later: at once, or in another thread if it takes more than a few milliseconds.
   * @param signal - ends what the other thread does for it
   * @param tenant - tenants take turns at the other thread; default: one without a name
   * @throws CllmError `invalid_constraint`
   */
  prepare(constraint: OutputConstraint, signal?: AbortSignal, tenant = ''): void | Promise<void> {
    const isKnown = this.#trie !== undefined || this.#tokens.size < manyTokens
    if (!isKnown) return this.#prepareFirst(constraint, tenant, signal)
    return this.#prepare(constraint, tenant, signal)
  }

  async #prepareFirst(
    constraint: OutputConstraint,
    tenant: string,
    signal?: AbortSignal,
  ): Promise<void> {
    void this.#tokens.trie
    // oxlint-disable-next-line no-restricted-globals -- yields to the event loop; no time is measured
    await new Promise(setImmediate)
    await this.#prepare(constraint, tenant, signal)
  }

  #prepare(
    constraint: OutputConstraint,
    tenant: string,
    signal?: AbortSignal,
  ): void | Promise<void> {
    const text = textOf(constraint)
    try {
      this.#prepared.set(constraint, this.#of(constraint, text, littleWork))
    } catch (error) {
      if (!(error instanceof MoreWork)) throw error
      return this.#prepareElsewhere(constraint, text, tenant, signal)
    }
  }

  /** Ends the other thread, if there is one, and all that wait for it. */
  async dispose(): Promise<void> {
    this.#closed = new CllmError('backend_failed', 'the backend was disposed of')
    this.#turns.close(this.#closed)
    await this.#thread.end()
  }

  #of(constraint: OutputConstraint, text: string, limits: WorkLimits): ConstraintGrammar {
    const key = keyOf(text)
    const known = this.#known.get(key)
    if (known !== undefined) return known
    // A long one seldom is little work, and would be begun here in vain; one beyond this is mostly refused at once.
    const isLong = text.length > longText && text.length <= grammarLimits.characters
    if (limits === littleWork && isLong) throw new MoreWork()
    return this.#keep(constraint, key, compileConstraint(constraint, this.#tokens, limits))
  }

  async #prepareElsewhere(
    constraint: OutputConstraint,
    text: string,
    tenant: string,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#turns.take(tenant, signal)
    try {
      if (this.#closed !== undefined) throw this.#closed
      const key = keyOf(text)
      let made = this.#known.get(key)
      if (made === undefined) {
        const { rules, first } = await this.#thread.compile(text, signal)
        made = this.#keep(constraint, key, new TokenGrammar(rules, this.#tokens, first))
      }
      this.#prepared.set(constraint, made)
    } catch (error) {
      throw this.#closed ?? error
    } finally {
      if (!this.#turns.areWanted) await this.#thread.end()
      this.#turns.next()
    }
  }

  #keep(constraint: OutputConstraint, key: string, grammar: TokenGrammar): ConstraintGrammar {
    const isTriggered = constraint.type === 'triggered-json'
    const trigger = isTriggered ? new RegExp(constraint.trigger) : undefined
    const made = { trigger, grammar }
    this.#known.set(key, made)
    return made
  }
}

const textOf = (constraint: OutputConstraint): string =>
  bounded(constraint, () => JSON.stringify(constraint))

/** The cache's key: a hash, as constraints may be large. */
const keyOf = (text: string): string => createHash('sha256').update(text).digest('base64')
