import { JsonScanner } from './json-scanner.js'

export const hermes = '<tool_call>'
const hermesEnd = '</tool_call>'
const fence = '```'
const mistral = '[TOOL_CALLS]'
const llama3 = '<|python_tag|>'
const named = '[ARGS]'

/** Each begins calls in JSON. */
export const marks = [hermes, mistral, llama3] as const

interface EndScanner {
  push(piece: string): number | undefined
}

/** What has an end, and where it begins. */
interface Found {
  readonly inner: EndScanner
  readonly at: number
}

/**
 * Finds the end of a tool call that comes in pieces: of `<tool_call>…</tool_call>`, of a code fence, or
 * of the first JSON behind other marks and names. Every character is looked at once, so that a call as
 * long as the context takes no more time for each of its tokens than a short one.
 */
export class CallScanner {
  #inner: EndScanner | undefined
  #state: 'start' | 'marks' | 'name' = 'start'
  /** What may be the beginning of a mark. */
  #held = ''
  #sawNamed = false

  /** How many characters of this piece belong to the call if it ends here, else undefined. */
  push(piece: string): number | undefined {
    if (this.#inner !== undefined) return this.#inner.push(piece)
    const text = this.#held + piece
    const before = this.#held.length
    this.#held = ''
    const found = this.#find(text)
    if (found === undefined) return undefined
    this.#inner = found.inner
    const end = found.inner.push(text.slice(found.at))
    return end === undefined ? undefined : found.at + end - before
  }

  #find(text: string): Found | undefined {
    let at = text.length - text.trimStart().length
    if (at === text.length) return undefined
    if (this.#state === 'start') {
      for (const [begin, end] of [
        [hermes, hermesEnd],
        [fence, fence],
      ] as const) {
        if (text.startsWith(begin, at)) {
          return { inner: new MarkScanner(end), at: at + begin.length }
        }
      }
      this.#state = 'marks'
    }
    if (this.#state === 'marks') {
      const next = this.#skipMarks(text, at)
      if (next === undefined) return undefined
      at = next
      this.#state = 'name'
    }
    return this.#findJson(text, at)
  }

  #skipMarks(text: string, from: number): number | undefined {
    let at = from
    while (at < text.length) {
      const mark = [mistral, llama3].find((each) => text.startsWith(each, at))
      if (mark !== undefined) at += mark.length
      else if (/[;\s]/.test(text[at]!)) at++
      else if (!this.#waitsFor(text, at, [mistral, llama3])) return at
      else return undefined
    }
    return undefined
  }

  #findJson(text: string, from: number): Found | undefined {
    const bracket = /[{[]/g
    bracket.lastIndex = from
    for (let found = bracket.exec(text); found !== null; found = bracket.exec(text)) {
      const at = found.index
      if (!this.#sawNamed && text.startsWith(named, at)) {
        this.#sawNamed = true
        bracket.lastIndex = at + named.length
      } else if (!this.#sawNamed && this.#waitsFor(text, at, [named])) return undefined
      else return { inner: new JsonScanner(), at }
    }
    return undefined
  }

  /** Whether the text may go on as one of these; then its end is held. */
  #waitsFor(text: string, at: number, wanted: readonly string[]): boolean {
    const end = text.slice(at, at + mistral.length + llama3.length)
    if (!wanted.some((each) => each.length > end.length && each.startsWith(end))) return false
    this.#held = end
    return true
  }
}

/** Finds the end of a mark in a text that comes in pieces. */
class MarkScanner {
  #tail = ''

  constructor(private readonly mark: string) {}

  push(piece: string): number | undefined {
    const text = this.#tail + piece
    const at = text.indexOf(this.mark)
    if (at >= 0) return at + this.mark.length - this.#tail.length
    this.#tail = text.slice(Math.max(0, text.length - this.mark.length + 1))
    return undefined
  }
}
