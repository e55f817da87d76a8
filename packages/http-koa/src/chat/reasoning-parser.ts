import { type AnswerParser, type AnswerPart, possibleStart } from './answer-part.js'

const opening = '<think>'
const closing = '</think>'

/**
 * Tells a model's thinking from its answer: `<think>…</think>` at the beginning, as DeepSeek-R1 and
 * Qwen3 write it. Some templates open the thinking themselves, then only its end comes.
 */
export class ReasoningParser implements AnswerParser {
  readonly #inner: AnswerParser
  #state: 'start' | 'thinking' | 'gap' | 'answer'
  #held = ''

  /** @param inner - takes what is not thinking */
  constructor(inner: AnswerParser, isOpen: boolean) {
    this.#inner = inner
    this.#state = isOpen ? 'thinking' : 'start'
  }

  push(text: string): readonly AnswerPart[] {
    if (this.#state === 'answer') return this.#inner.push(text)
    const parts: AnswerPart[] = []
    this.#held += text
    if (this.#state === 'start') this.#start()
    if (this.#state === 'thinking') this.#think(parts)
    if (this.#state === 'gap') {
      this.#held = this.#held.trimStart()
      if (this.#held !== '') this.#state = 'answer'
    }
    if (this.#state === 'answer') {
      const rest = this.#held
      this.#held = ''
      if (rest !== '') parts.push(...this.#inner.push(rest))
    }
    return parts
  }

  end(): readonly AnswerPart[] {
    const text = this.#held
    this.#held = ''
    if (text === '') return this.#inner.end()
    if (this.#state === 'thinking') return [{ type: 'reasoning', text }, ...this.#inner.end()]
    return [...this.#inner.push(text), ...this.#inner.end()]
  }

  #start(): void {
    const begin = this.#held.trimStart()
    if (begin.startsWith(opening)) {
      this.#held = begin.slice(opening.length).replace(/^\n/, '')
      this.#state = 'thinking'
    } else if (!opening.startsWith(begin)) this.#state = 'answer'
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
