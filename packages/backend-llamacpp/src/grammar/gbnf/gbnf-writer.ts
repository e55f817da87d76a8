import { entryOf } from '@cllm/core'
import { refused } from '../refuse.js'

/** A larger repetition is no longer counted by llama.cpp (`MAX_REPETITION_THRESHOLD` is 2,000). */
const block = 1000
/** Characters of the whole text: what llama.cpp still takes in within milliseconds. */
const maximumText = 200_000
/** How often something may be repeated, where the number of repetitions is bounded. */
export const maximumRepetitions = 100_000

/** Code points from the first to the last one, both included. */
export type CodePointRange = readonly [first: number, last: number]

/** Collects the rules of a grammar in GBNF, llama.cpp's notation. */
export class GbnfWriter {
  readonly #rules = new Map<string, string>()
  readonly #names = new Map<string, string>()
  #size = 0

  /** Adds a rule under its own name. */
  define(name: string, body: string): void {
    this.#size += name.length + body.length
    if (this.#size > maximumText) {
      const reason = `it has more than ${maximumText} characters`
      throw refused('The grammar of the constraint is too large', reason, { limit: maximumText })
    }
    this.#rules.set(name, body)
  }

  has(name: string): boolean {
    return this.#rules.has(name)
  }

  /** All rules, by their names. */
  rules(): ReadonlyMap<string, string> {
    return this.#rules
  }

  /** The name of a rule with this body; the same body has one rule. */
  rule(body: string): string {
    return entryOf(this.#names, body, () => {
      const name = `r${this.#names.size}`
      this.define(name, body)
      return name
    })
  }

  /** `min` to `max` (which may be infinite) of a rule. */
  repeat(name: string, min: number, max: number): string {
    if (max === 0) return ''
    if (max === 1) return min === 1 ? name : `${name}?`
    if (max === Infinity) return `${this.#exactly(name, min)} ${name}*`.trimStart()
    if (max <= block) return `${name}{${min},${max}}`
    return `${this.#exactly(name, min)} ${this.#upTo(name, max - min)}`.trim()
  }

  /** The grammar; its first rule is the root. */
  toString(): string {
    return [...this.#rules].map(([name, body]) => `${name} ::= ${body}\n`).join('')
  }

  #exactly(name: string, count: number): string {
    const blocks = Math.floor(count / block)
    const parts = blocks === 0 ? [] : [`${this.rule(`${name}{${block}}`)}{${blocks}}`]
    if (count % block > 0) parts.push(`${name}{${count % block}}`)
    return parts.join(' ')
  }

  #upTo(name: string, count: number): string {
    if (count <= block) return count === 0 ? '' : `${name}{0,${count}}`
    const whole = this.rule(`${name}{${block}}`)
    const part = this.rule(`${name}{0,${block - 1}}`)
    return this.rule(`${whole} ${this.#upTo(name, count - block)} | ${part}`)
  }
}

/** The text of a grammar. */
export function grammarText(rootOf: (writer: GbnfWriter) => string): string {
  const writer = new GbnfWriter()
  writer.define('root', rootOf(writer))
  return writer.toString()
}

/** A text as a GBNF terminal. */
export function literal(text: string): string {
  return `"${text.replaceAll(/["\\]/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\r', '\\r')}"`
}

/** One character out of some ranges as a GBNF terminal. */
export function oneOf(ranges: readonly CodePointRange[]): string {
  const parts = ranges.map(([first, last]) =>
    first === last ? inClass(first) : `${inClass(first)}-${inClass(last)}`,
  )
  return `[${parts.join('')}]`
}

function inClass(codePoint: number): string {
  if (codePoint > 0x20 && codePoint < 0x7f) {
    const character = String.fromCharCode(codePoint)
    return /[\w]/.test(character) ? character : `\\x${hex(codePoint, 2)}`
  }
  if (codePoint <= 0xff) return `\\x${hex(codePoint, 2)}`
  return codePoint <= 0xffff ? `\\u${hex(codePoint, 4)}` : `\\U${hex(codePoint, 8)}`
}

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0')
