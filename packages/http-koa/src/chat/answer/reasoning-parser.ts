import { type AnswerParser, type AnswerPart, possibleStart } from './answer-part.js'

const opening = '<think>'
const closing = '</think>'

/**
 * Separates reasoning from the answer: `<think>…</think>` at the beginning, as DeepSeek-R1 and Qwen3
 * write it. Some templates open the reasoning in the prompt; the answer then has only its end.
 */
export class ReasoningParser implements AnswerParser {
  readonly #inner: AnswerParser
  #state: 'start' | 'thinking' | 'gap' | 'answer'
  /** White space before anything else. */
  #blank = ''
  #held = ''

  /** @param inner - parses what follows the reasoning */
  constructor(inner: AnswerParser, isOpen: boolean) {
    this.#inner = inner
    this.#state = isOpen ? 'thinking' : 'start'
  }

  push(text: string): readonly AnswerPart[] {
    if (this.#state === 'answer') return this.#inner.push(text)
    const parts: AnswerPart[] = []
    if (this.#state === 'start') this.#start(text)
    else this.#held += text
    if (this.#state === 'thinking') this.#think(parts)
    if (this.#state === 'gap') {
      this.#held = this.#held.trimStart()
      if (this.#held !== '') this.#state = 'answer'
    }
    if (this.#state === 'answer') {
      const rest = this.#held
      this.#held = ''
      if (rest === '') return parts
      for (const part of this.#inner.push(rest)) parts.push(part)
    }
    return parts
  }

  end(): readonly AnswerPart[] {
    const text = this.#blank + this.#held
    this.#blank = this.#held = ''
    if (text === '') return this.#inner.end()
    if (this.#state === 'thinking') return [{ type: 'reasoning', text }, ...this.#inner.end()]
    return [...this.#inner.push(text), ...this.#inner.end()]
  }

  #start(text: string): void {
    const begin = this.#held === '' ? text.trimStart() : text
    this.#blank += text.slice(0, text.length - begin.length)
    this.#held += begin
    if (this.#held.startsWith(opening)) {
      this.#held = this.#held.slice(opening.length).replace(/^\n/, '')
      this.#blank = ''
      this.#state = 'thinking'
    } else if (!opening.startsWith(this.#held)) {
      this.#held = this.#blank + this.#held
      this.#blank = ''
      this.#state = 'answer'
    }
  }

  #think(parts: AnswerPart[]): void {
    const at = this.#held.indexOf(closing)
    const certain = at >= 0 ? at : this.#held.length - possibleStart(this.#held, [closing])
    const text = this.#held.slice(0, certain)
    if (text.trim() !== '' || (text !== '' && at < 0)) parts.push({ type: 'reasoning', text })
    this.#held = this.#held.slice(at >= 0 ? at + closing.length : certain)
    if (at >= 0) this.#state = 'gap'
  }
}
