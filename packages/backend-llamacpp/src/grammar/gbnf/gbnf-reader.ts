import type { CllmError } from '@cllm/core'
import { ElementKind } from './gbnf-rules.js'
import type { GrammarTokens } from '../match/token-grammar.js'
import { checkWork, grammarLimits, refused, type WorkLimits } from '../refuse.js'

const nameCharacters = /[A-Za-z0-9-]+/y
const number = /\d+/y
const token = /(!?)(<(?:\[(\d+)\]|[^>]*)>)/y
const hexDigits: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 }
const escapes: Readonly<Record<string, string>> = {
  t: '\t',
  r: '\r',
  n: '\n',
  '\\': '\\',
  '"': '"',
  '[': '[',
  ']': ']',
  '-': '-',
}

/** The limits of a repetition: `*`, `+`, `?` or `{…}`. */
export interface Amount {
  readonly min: number
  readonly max: number
}

/** Finds the tokens of texts. */
export type NamedTokens = Pick<GrammarTokens, 'encode'>

/** Receives an element of a rule. */
type AddElement = (kind: number, value: number) => void

/** Reads the parts of a GBNF text one after the other. */
export class GbnfReader {
  at = 0

  /** @param tokens - finds tokens that the grammar names by their text; default: the grammar may name none */
  constructor(
    private readonly text: string,
    private readonly tokens?: NamedTokens,
    limits: WorkLimits = grammarLimits,
  ) {
    const { length } = text
    checkWork('characters', length, limits, (limit) => {
      const reason = `it has ${length} characters, the limit is ${limit}`
      return refused('The grammar cannot be used', reason, { limit })
    })
  }

  get isAtEnd(): boolean {
    return this.at >= this.text.length
  }

  sees(sign: string): boolean {
    return this.text.startsWith(sign, this.at)
  }

  /** Consumes a sign if it comes next. */
  take(sign: string): boolean {
    if (!this.sees(sign)) return false
    this.at += sign.length
    return true
  }

  takesLineEnd(): boolean {
    return this.take('\r\n') || this.take('\n') || this.take('\r')
  }

  /** Skips blanks and comments. */
  skipSpace(overLines: boolean): void {
    for (;;) {
      const sign = this.text[this.at]
      if (sign === '#') {
        while (!this.isAtEnd && !this.sees('\n') && !this.sees('\r')) this.at++
      } else if (sign === ' ' || sign === '\t') this.at++
      else if (!overLines || !this.takesLineEnd()) return
    }
  }

  name(): string | undefined {
    return this.#match(nameCharacters)?.[0]
  }

  /** Reads `*`, `+`, `?` or `{…}`. */
  repetition(overLines: boolean): Amount | undefined {
    if (this.take('*')) return { min: 0, max: Infinity }
    if (this.take('+')) return { min: 1, max: Infinity }
    if (this.take('?')) return { min: 0, max: 1 }
    const start = this.at
    if (!this.take('{')) return undefined
    this.skipSpace(overLines)
    const least = this.#match(number)?.[0]
    this.skipSpace(overLines)
    const isRange = this.take(',')
    this.skipSpace(overLines)
    const most = isRange ? this.#match(number)?.[0] : least
    this.skipSpace(overLines)
    if (least === undefined || !this.take('}')) throw this.unexpected(start)
    const [min, max] = [Number(least), most === undefined ? Infinity : Number(most)]
    const limit = grammarLimits.repetitions
    if (min <= limit && (most === undefined || max <= limit)) return { min, max }
    throw this.problem(`more than ${limit} repetitions`, start)
  }

  /** Reads a text in quotes. */
  literal(add: (code: number) => void): boolean {
    const start = this.at
    if (!this.take('"')) return false
    while (!this.take('"')) add(this.#character(start))
    return true
  }

  /** Reads characters in brackets. */
  set(add: AddElement): boolean {
    const start = this.at
    if (!this.take('[')) return false
    let kind: number = this.take('^') ? ElementKind.NotCharacter : ElementKind.Character
    while (!this.take(']')) {
      add(kind, this.#character(start))
      kind = ElementKind.OtherCharacter
      if (this.sees('-') && this.text[this.at + 1] !== ']') {
        this.at++
        add(ElementKind.RangeEnd, this.#character(start))
      }
    }
    return true
  }

  /** `<[1]>` or `<think>`, and `!` before it. */
  token(add: AddElement): boolean {
    const at = this.at
    const found = this.#match(token)
    if (found === undefined) return false
    const [, not, name = '', digits] = found
    const named = digits === undefined ? this.tokens?.encode(name, true) : [Number(digits)]
    const id = named?.length === 1 ? named[0]! : Infinity
    if (id > 0x7fffffff) throw this.problem(`there is no token ${name}`, at)
    add(not === '!' ? ElementKind.NotToken : ElementKind.Token, id)
    return true
  }

  unexpected(at = this.at): CllmError {
    return this.problem(`unexpected ${JSON.stringify(this.text.slice(at, at + 12))}`, at)
  }

  /** An error with its line and column. */
  problem(reason: string, at = this.at): CllmError {
    const before = this.text.slice(0, at)
    const column = at - before.lastIndexOf('\n')
    const line = before.split('\n').length
    const what = `The grammar cannot be used: line ${line}, column ${column}`
    return refused(what, reason, { line, column })
  }

  /** Reads one character of the literal or set that begins at `start`. */
  #character(start: number): number {
    const code = this.text.codePointAt(this.at)
    if (code === undefined || code === 0) throw this.unexpected(start)
    if (code !== 0x5c) {
      this.at += code > 0xffff ? 2 : 1
      return code
    }
    const sign = this.text[this.at + 1] ?? ''
    const escaped = escapes[sign]
    if (escaped !== undefined) {
      this.at += 2
      return escaped.charCodeAt(0)
    }
    const digits = hexDigits[sign] ?? 0
    const hex = this.text.slice(this.at + 2, this.at + 2 + digits)
    if (digits === 0 || !/^[0-9a-fA-F]+$/.test(hex) || hex.length < digits) throw this.unexpected()
    this.at += 2 + digits
    return Number.parseInt(hex, 16)
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text) ?? undefined
    this.at += found?.[0].length ?? 0
    return found
  }
}
