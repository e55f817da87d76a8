import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { parseFields } from '../fields/fields.js'
import { expectedField } from '../request/refusals.js'
import type { Call } from '../routes/route.js'
import { readWithin } from './read-json-body.js'

/** The media type of forms with files. */
export const formType = 'multipart/form-data'

/** A file of a form. */
export const file = z
  .custom<File>((value) => value instanceof File, 'a file')
  .meta({ type: 'string', format: 'binary' })

/**
 * The fields of a form in a request's body: files and texts, checked by a schema.
 *
 * @throws `invalid_request` for what is no form, `body_too_large` beyond `limit` bytes
 */
export async function readForm<Schema extends z.ZodObject>(
  { body }: Pick<Call, 'body'>,
  schema: Schema,
  limit: number,
): Promise<z.output<Schema>> {
  const { type } = body
  if (!type.toLowerCase().startsWith(formType)) {
    const got = type === '' ? 'no type' : type.slice(0, 64)
    throw expectedField('file', `${formType} with a file, got ${got}`)
  }
  body.allowUpload()
  const bytes = await readWithin(body.stream, limit, body.length, body.count, 'file')
  try {
    const headers = { 'content-type': type }
    const form = await new Response(bytes as Uint8Array<ArrayBuffer>, { headers }).formData()
    return parseFields(schema, fieldsOf(form))
  } catch (error) {
    if (CllmError.isInstance(error)) throw error
    const message = `The form cannot be read: ${(error as Error).message}`
    throw new CllmError('invalid_request', message, { cause: error })
  }
}

/** Without those that are empty; the parts of a list, such as `include[]`, with commas between them. */
function fieldsOf(form: FormData): Record<string, unknown> {
  const fields = new Map<string, string | File>()
  for (const [key, value] of form) {
    const name = key.replace(/\[\w*\]$/, '')
    const before = fields.get(name)
    const isListed = typeof before === 'string' && typeof value === 'string'
    if (value !== '') fields.set(name, isListed ? `${before},${value}` : value)
  }
  return Object.fromEntries(fields)
}
