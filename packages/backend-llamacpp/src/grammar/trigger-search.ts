import type { TokenId } from '@cllm/core'
import type { AST } from '@eslint-community/regexpp'
import { isLookahead } from './pattern/nfa.js'
import { parsePattern, unlessProblem } from './pattern/parse-pattern.js'
import type { Vocabulary } from '../text/vocabulary.js'

/** Where a grammar begins to apply. */
export interface GrammarStart {
  /** The index in the output of the first token that the grammar covers. */
  readonly token: number
  /** Bytes at the beginning of this token's text that the grammar does not cover. */
  readonly skipped: number
}

/** The part of a vocabulary that a search uses. */
type SearchedVocabulary = Pick<Vocabulary, 'bytes'> & Partial<Pick<Vocabulary, 'controlText'>>

/**
 * Searches growing output for the text that triggers a grammar. The pattern runs over the whole output, so it only runs
 * if the added text contains the literal with which every match ends.
 */
export class TriggerSearch {
  /** The pattern without escapes, to find the control tokens that it contains. */
  readonly #letters: string
  readonly #ending: string
  #decoder = new TextDecoder()
  #text = ''
  /** For each token, where its text ends. */
  #ends: number[] = []

  constructor(
    private readonly vocabulary: SearchedVocabulary,
    private readonly pattern: RegExp,
  ) {
    this.#letters = pattern.source.replaceAll(/\\(.)/g, '$1')
    this.#ending = triggerEnding(pattern.source)
  }

  /** Starts over, because earlier output has changed. */
  reset(): void {
    this.#decoder = new TextDecoder()
    this.#text = ''
    this.#ends = []
  }

  /** The text of a token; a control token only has one if the pattern contains it. */
  #textOf(token: TokenId): string {
    const bytes = this.vocabulary.bytes(token)
    if (bytes.length > 0) return this.#decoder.decode(bytes, { stream: true })
    const text = this.vocabulary.controlText?.(token) ?? ''
    return text !== '' && this.#letters.includes(text) ? text : ''
  }

  /**
   * Finds where the grammar begins; undefined: the trigger has not come yet.
   * @param output - the output of the last call, with any tokens added since
   */
  find(output: readonly TokenId[]): GrammarStart | undefined {
    const before = this.#text.length
    for (let index = this.#ends.length; index < output.length; index++) {
      this.#text += this.#textOf(output[index] ?? 0)
      this.#ends.push(this.#text.length)
    }
    if (this.#text.length === before) return undefined
    const ending = this.#ending
    if (!this.#text.includes(ending, before - ending.length + 1)) return undefined
    const match = this.pattern.exec(this.#text)
    if (match === null) return undefined
    const at = match.index + match[0].length
    const after = this.#ends.findIndex((end) => end > at)
    if (after < 0) return { token: output.length, skipped: 0 }
    const start = this.#ends[after - 1] ?? 0
    return { token: after, skipped: Buffer.byteLength(this.#text.slice(start, at)) }
  }
}

/** Constructs with which a pattern may match later although the added text does not contain the pattern's end. */
const looksFurther = /\$|\\[bB]|\(\?=|\(\?<|\(\?![^)]*\(\?/

/**
 * The literal text with which every match of a pattern ends, including a final `(?=…)`: `<tool_call>` for
 * `^[^]*?<tool_call>`. If the added text does not contain it, a search that found nothing before cannot succeed. Empty
 * if the pattern has no such ending.
 */
function triggerEnding(pattern: string): string {
  const parse = () => parsePattern(pattern).alternatives
  const elements = onlyOf(unlessProblem(parse, () => [])) // Valid without the flag u.
  const last = elements.at(-1)
  const looksAhead = isLookahead(last) && !last.negate
  if (looksFurther.test(looksAhead ? pattern.slice(0, last.start) : pattern)) return ''
  if (!looksAhead) return literalEnd(elements)
  const ahead = onlyOf(last.alternatives)
  return ahead.every(isCharacter) ? literalEnd(ahead) : ''
}

/** The elements of the only alternative; none if there are several alternatives. */
const onlyOf = ([only, other]: readonly AST.Alternative[]): readonly AST.Element[] =>
  only === undefined || other !== undefined ? [] : only.elements

function literalEnd(elements: readonly AST.Element[]): string {
  let text = ''
  for (const element of elements.toReversed()) {
    if (!isCharacter(element)) break
    text = String.fromCodePoint(element.value) + text
  }
  return text
}

const isCharacter = (element: AST.Element): element is AST.Character => element.type === 'Character'
