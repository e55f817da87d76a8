import { CllmError } from '@cllm/core'
import type { z } from 'zod'

/**
 * The error for a field that this server knows but cannot honour: such fields are refused, never ignored. Unknown fields
 * are logged.
 */
export const unsupported = (field: string, what: string): CllmError =>
  new CllmError('unsupported', `${field}: ${what}`, { details: { field } })

type Refusal = readonly [type: z.ZodType, why: string, ...harmless: unknown[]]

/**
 * Fields that would change an answer but are not supported, so that they are refused instead of ignored. For each: its
 * type, the reason, and values that ask for nothing special, besides false and an empty list.
 */
export function refusing<Name extends string>(refused: Readonly<Record<Name, Refusal>>) {
  const all = Object.entries<Refusal>(refused)
  const types = all.map(([name, [type]]) => [name, type.optional()])
  return {
    /** The fields, for a schema. */
    fields: Object.fromEntries(types) as { readonly [Each in Name]: z.ZodOptional<z.ZodUnknown> },
    /** @throws `unsupported` for the first field with another value */
    check(given: Readonly<Record<string, unknown>>): void {
      for (const [name, [, why, ...harmless]] of all) {
        const value = given[name]
        const isEmpty = Array.isArray(value) && value.length === 0
        if (value === undefined || value === false || isEmpty || harmless.includes(value)) continue
        throw unsupported(name, `not supported: ${why}`)
      }
    },
  }
}

/** An optional part of a server; throws `unsupported` with this message if it is absent. */
export function orUnsupported<Part>(part: Part | undefined, message: string): Part {
  if (part !== undefined) return part
  throw new CllmError('unsupported', message)
}

/** The error for a field with an unusable value; `problem` says why. */
export const invalidField = (field: string, problem: string): CllmError =>
  new CllmError('invalid_request', `${field}: ${problem}`, { details: { field } })

/** The error for a field with an unexpected value. */
export const expectedField = (field: string, expected: string): CllmError =>
  invalidField(field, `expected ${expected}`)

/** The error for a missing field. */
export const missingField = (field: string, details: object = {}): CllmError =>
  new CllmError('invalid_request', `Missing required field: ${field}`, {
    details: { field, ...details },
  })

/** The error for an image, a sound or a file that the model cannot read: says what is missing, and where to look. */
export const noMedia = (field: string, type: string): CllmError =>
  unsupported(
    field,
    `${type.slice(0, 40)} input is not supported: ` +
      (type === 'image' || type === 'audio'
        ? 'this model is served without a projector for it. It needs one (cllm serve --model … --mmproj FILE) and ' +
          'what encodes it (cllm native build), see docs/images-and-sound.md; or send a description'
        : 'models take text and, with a projector, images and sounds; send its text'),
  )
