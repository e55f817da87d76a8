import { z } from 'zod'
import { object, parsedJson } from '../../../fields/fields.js'

/** What a free-form tool is, the same in chats and responses: its input is a text, not JSON. */
const customFields = {
  name: z.string('a name').regex(/^[\w.-]{1,64}$/, 'a name of up to 64 letters, digits, _ . -'),
  description: z.string('a string').nullish(),
  format: object.nullish(),
}

/** A free-form tool that a client offers. */
export const customSchema = z.object(customFields, 'an object with a name')

/** The input in the arguments of a call; what a model writes otherwise is the input as it is. */
export function customInput(written: string): string {
  const value = parsedJson(written)
  // what broke off shows as such
  if (typeof value !== 'object' || value === null) return written
  const [only, ...others] = Object.values(value) as unknown[]
  const input = 'input' in value ? value.input : others.length === 0 ? only : undefined
  return typeof input === 'string' ? input : written
}

const opening = /^\s*\{\s*"input"\s*:\s*"/
const escapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

/** Takes the input out of arguments that come in pieces. */
export class CustomInput {
  #written = ''
  #at: number | undefined
  #isOver = false

  /** What is certain of the input with this piece. */
  push(piece: string): string {
    this.#written += piece
    if (this.#isOver) return ''
    if (this.#at === undefined) {
      const found = opening.exec(this.#written)
      if (found === null) return ''
      this.#at = found[0].length
    }
    let text = ''
    while (this.#at < this.#written.length && !this.#isOver) {
      const { length, shown } = this.#character(this.#at)
      if (length === 0) break
      this.#at += length
      text += shown
    }
    return text
  }

  /** What was not certain until the end. */
  end(): string {
    if (this.#at !== undefined || this.#written.length === 0) return ''
    return customInput(this.#written)
  }

  /** All up to the next character that is special. */
  #plain(at: number): { readonly length: number; readonly shown: string } {
    const shown = /^[^"\\]+/.exec(this.#written.slice(at))![0]
    return { length: shown.length, shown }
  }

  #character(at: number): { readonly length: number; readonly shown: string } {
    const sign = this.#written[at]!
    if (sign === '"') {
      this.#isOver = true
      return { length: 1, shown: '' }
    }
    if (sign !== '\\') return this.#plain(at)
    const name = this.#written[at + 1]
    if (name === undefined) return { length: 0, shown: '' }
    if (name !== 'u') return { length: 2, shown: escapes[name] ?? name }
    const digits = this.#written.slice(at + 2, at + 6)
    if (digits.length < 4) return { length: 0, shown: '' }
    return { length: 6, shown: String.fromCharCode(Number.parseInt(digits, 16)) }
  }
}
