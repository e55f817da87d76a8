import type { Readable } from 'node:stream'
import { CllmError } from '@cllm/core'
import getRawBody from 'raw-body'

/**
 * All bytes of a stream.
 *
 * @param length - how many it will be, where that is known
 * @param what - what is too large, in the message
 * @throws `body_too_large` beyond `limit` bytes
 */
export async function readWithin(
  stream: Readable,
  limit: number,
  length: string,
  what = 'body',
): Promise<Buffer> {
  try {
    return await getRawBody(stream, { limit, ...(length === '' ? {} : { length }) })
  } catch (error) {
    if ((error as getRawBody.RawBodyError).type !== 'entity.too.large') throw error
    const message = `Expected a ${what} of at most ${limit} bytes, instead got more`
    throw new CllmError('body_too_large', message, { details: { limit }, cause: error })
  }
}
