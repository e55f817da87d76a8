import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { CllmError } from '@cllm/core'
import { reasonOf } from '../../config/messages.js'

/** A part of a message of `POST /v1/chat/completions`. */
export interface MediaPart {
  readonly type: string
  readonly [field: string]: unknown
}

const images = ['.png', '.jpg', '.jpeg', '.gif', '.bmp']
const sounds = ['.wav', '.mp3', '.flac']

/**
 * Reads an image or a sound for a message. What it is goes by its name; the server looks into it.
 *
 * @throws CllmError `invalid_request` for a file of another kind, or one that cannot be read
 */
export async function readMedia(file: string): Promise<MediaPart> {
  const ending = extname(file).toLowerCase()
  const isImage = images.includes(ending)
  if (!isImage && !sounds.includes(ending)) {
    const known = [...images, ...sounds].join(', ')
    throw new CllmError('invalid_request', `${file}: expected a name that ends in ${known}`)
  }
  const bytes = await readFile(file).catch((cause: Error) => {
    const message = `${file}: expected an image or a sound, but ${reasonOf(cause)}`
    throw new CllmError('invalid_request', message, { cause })
  })
  const data = bytes.toString('base64')
  return isImage
    ? { type: 'image_url', image_url: { url: `data:image/${ending.slice(1)};base64,${data}` } }
    : { type: 'input_audio', input_audio: { data, format: ending.slice(1) } }
}
