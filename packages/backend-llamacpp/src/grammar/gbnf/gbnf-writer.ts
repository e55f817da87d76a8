import { entryOf } from '@cllm/core/defined'
import {
  type CodePointRange,
  type CodePointSet,
  complement,
  difference,
  union,
} from '../pattern/code-point-set.js'
import { grammarLimits, refused } from '../refuse.js'
import { GbnfReader } from './gbnf-reader.js'
import { charactersAt } from './gbnf-rules.js'

/** Larger repetitions are split, as llama.cpp refuses them (`MAX_REPETITION_THRESHOLD` is 2,000). */
const block = 1000
/** The most repetitions of something, if their number is bounded. */
export const maximumRepetitions = 100_000

/** Collects the rules of a grammar in GBNF, llama.cpp's notation. */
export class GbnfWriter {
  readonly #rules = new Map<string, string>()
  readonly #names = new Map<string, string>()
  #size = 0

  /** Adds a rule under its own name. */
  define(name: string, body: string): void {
    this.#size += name.length + body.length
    const limit = grammarLimits.characters
    if (this.#size > limit) {
      const reason = `it has more than ${limit} characters`
      throw refused('The grammar of the constraint is too large', reason, { limit })
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

  /** Returns the name of a rule with this body, which is only added once. */
  rule(body: string): string {
    return entryOf(this.#names, body, () => {
      const name = `r${this.#names.size}`
      this.define(name, body)
      return name
    })
  }

  /** `min` to `max` times a rule; a finite `max` is at most {@link maximumRepetitions}. */
  repeat(name: string, min: number, max: number): string {
    if (max === 0) return ''
    if (max === 1) return min === 1 ? name : `${name}?`
    if (max === Infinity) return `${this.#exactly(name, min)} ${name}*`.trimStart()
    if (max <= block) return `${name}{${min},${max}}`
    return `${this.#exactly(name, min)} ${this.#upTo(name, Math.min(max, maximumRepetitions) - min)}`.trim()
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

/** One character from these ranges, as a GBNF terminal. */
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

/** The characters that JSON strings must escape, and halves of surrogate pairs. */
const special: CodePointSet = union([
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
  [0xd800, 0xdfff],
])
const control: CodePointSet = [[0x80, 0x9f]]
const escapes = new Map([
  [0x09, '\\t'],
  [0x0a, '\\n'],
  [0x0d, '\\r'],
  [0x22, '\\"'],
  [0x5c, '\\\\'],
])

/** The characters of keys that a schema does not name: only those that can be written in one way. */
export const plainCharacters: CodePointSet = difference(complement(special), control)

/** The rules of sets, by identity: a part of a pattern always has the same set, and so has a Unicode property. */
const known = new WeakMap<CodePointSet, string | undefined>()

/** One character of a JSON string as GBNF; undefined if no character of the set can be in one. */
export function characterRule(set: CodePointSet): string | undefined {
  return entryOf(known, set, () => write(set))
}

function write(set: CodePointSet): string | undefined {
  const plain = difference(set, special)
  const parts = plain.length === 0 ? [] : [oneOf(plain)]
  for (const [first, last] of set) {
    for (let code = first; code <= Math.min(last, 0x5c); code++) {
      // Control characters are only written if the set has no other characters.
      const isBare = code < 0x20 && plain.length === 0
      const bare = isBare ? `\\u${code.toString(16).padStart(4, '0')}` : undefined
      const escape = escapes.get(code) ?? bare
      if (escape !== undefined) parts.push(literal(escape))
    }
  }
  if (parts.length === 0) return undefined
  return parts.length === 1 ? parts[0] : `(${parts.join(' | ')})`
}

/**
 * Copies the rules of a grammar into another one, such that its texts can be inside a JSON string: quotes and
 * backslashes are escaped.
 * @returns the name of the copied rule `name`
 */
export function quoteGrammar(into: GbnfWriter, from: GbnfWriter, name: string): string {
  let number = 0
  while (into.has(`q${number}-${name}`)) number++
  const nameOf = (rule: string) => `q${number}-${rule}`
  const signs = new Map<number, string>()
  const sign = (code: number): string => entryOf(signs, code, () => one([[code, code]]))
  const quoted = (body: string): string => {
    const reader = new GbnfReader(body)
    const parts: string[] = []
    while (!reader.isAtEnd) {
      const start = reader.at
      const codes: number[] = []
      const kinds: number[] = []
      const values: number[] = []
      const add = (kind: number, value: number): void => {
        kinds.push(kind)
        values.push(value)
      }
      if (reader.literal((code) => codes.push(code))) {
        parts.push(codes.length === 0 ? '""' : `(${codes.map(sign).join(' ')})`)
      } else if (reader.set(add)) {
        parts.push(one(charactersAt({ kinds, values }, 0)))
      } else {
        const name = reader.name()
        if (name !== undefined) parts.push(nameOf(name))
        else if (reader.repetition(false) !== undefined) parts.push(body.slice(start, reader.at))
        else parts.push(body[reader.at++]!)
      }
    }
    return parts.join('')
  }
  for (const [rule, body] of from.rules()) into.define(nameOf(rule), quoted(body))
  return nameOf(name)
}

/** The rule of one character in a string, in which every character of JSON's grammars can be. */
const one = (set: CodePointSet): string => characterRule(set) ?? '""'
