import { CllmError } from '@cllm/core'
import { expectedField } from '../request/refusals.js'
import type { Call } from '../routes/call.js'
import { readWithin } from './read-json-body.js'

/**
 * The form with a file in a request's body.
 *
 * @throws `invalid_request` for what is no form, `body_too_large` beyond `limit` bytes
 */
export async function readForm({ body }: Pick<Call, 'body'>, limit: number): Promise<FormData> {
  const { type } = body
  if (!/^multipart\/form-data/i.test(type)) {
    const got = type === '' ? 'no type' : type.slice(0, 64)
    throw expectedField('file', `multipart/form-data with a file, got ${got}`)
  }
  body.allowUpload()
  const bytes = await readWithin(body.stream, limit, body.length, body.count, 'file')
  try {
    return await new Response(bytes as Uint8Array<ArrayBuffer>, {
      headers: { 'content-type': type },
    }).formData()
  } catch (error) {
    const message = `The form cannot be read: ${(error as Error).message}`
    throw new CllmError('invalid_request', message, { cause: error })
  }
}
