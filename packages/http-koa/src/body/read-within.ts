import type { Readable } from 'node:stream'
import { CllmError } from '@cllm/core'
import getRawBody from 'raw-body'

/**
 * All bytes of a stream.
 *
 * @param length - how many it will be, where that is known
 * @param count - takes the bytes of each part as it comes; what it throws ends the reading
 * @param what - what is too large, in the message
 * @throws `body_too_large` beyond `limit` bytes
 */
export async function readWithin(
  stream: Readable,
  limit: number,
  length: string,
  count: (bytes: number) => void,
  what = 'body',
): Promise<Buffer> {
  let onData = (_part: Buffer): void => {}
  const refused = new Promise<never>((_resolve, reject) => {
    onData = (part) => {
      try {
        count(part.length)
      } catch (error) {
        // What still comes is not kept.
        stream.removeAllListeners('data')
        stream.pause()
        reject(error)
      }
    }
  })
  stream.on('data', onData)
  try {
    const whole = getRawBody(stream, { limit, ...(length === '' ? {} : { length }) })
    return await Promise.race([whole, refused])
  } catch (error) {
    if ((error as getRawBody.RawBodyError).type !== 'entity.too.large') throw error
    const message = `Expected a ${what} of at most ${limit} bytes, instead got more`
    throw new CllmError('body_too_large', message, { details: { limit }, cause: error })
  } finally {
    stream.off('data', onData)
  }
}
