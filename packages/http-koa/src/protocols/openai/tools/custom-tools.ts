import { z } from 'zod'
import { object, parsedJson } from '../../../fields/fields.js'

/** What every tool is, the same in chats and responses. */
export const toolFields = {
  name: z.string('a name').regex(/^[\w.-]{1,64}$/, 'a name of up to 64 letters, digits, _ . -'),
  description: z.string('a string').nullish(),
}

/** A free-form tool that a client offers: its input is a text, not JSON. */
export const customSchema = z.object(
  { ...toolFields, format: object.nullish() },
  'an object with a name',
)

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
/** What of a text in JSON can be shown: letters, or an escape that is whole. */
const certain = /[^"\\]+|\\u[^]{4}|\\[^u]/y

/** What an escape stands for; a letter that needs none stands for itself. */
const unescaped = (escape: string): string =>
  (parsedJson(`"${escape}"`) as string | undefined) ?? escape.slice(1)

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
    for (;;) {
      certain.lastIndex = this.#at
      const [found] = certain.exec(this.#written) ?? []
      if (found === undefined) break
      this.#at += found.length
      text += found.startsWith('\\') ? unescaped(found) : found
    }
    this.#isOver = this.#written[this.#at] === '"'
    return text
  }

  /** What was not certain until the end. */
  end(): string {
    if (this.#at !== undefined || this.#written.length === 0) return ''
    return customInput(this.#written)
  }
}
