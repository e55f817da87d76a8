import { attempt, CllmError, type MediaType, soundLength } from '@cllm/core'
import { imageSize } from 'image-size'

/** Image formats that can be decoded. */
const formats = ['png', 'jpg', 'webp', 'gif', 'bmp']

/** The most pixels of an image; decoding takes three bytes for each. */
const mostPixels = 64_000_000

/** The shortest sound, as with OpenAI; libmtmd ends its process for a sound of one or two samples. */
const leastSeconds = 0.1
/** The longest sound; decoding takes 64 kB per second. */
const mostSeconds = 1800

/**
 * Checks the header of a file before it is decoded; returns its millions of pixels, or its seconds.
 * @throws CllmError `invalid_media` with what was expected and what came
 */
export function checkHead(type: MediaType, file: Uint8Array): number {
  return type === 'image' ? checkImage(file) : checkSound(file)
}

function checkImage(file: Uint8Array): number {
  const unknown = { type: 'something else', width: 0, height: 0 }
  const { type = unknown.type, width, height } = attempt(() => imageSize(file), unknown)
  if (!formats.includes(type)) {
    throw refused('image', `expected a PNG, JPEG, WebP, GIF or BMP file in base64, got ${type}`)
  }
  if (!(width > 0 && height > 0 && width * height <= mostPixels)) {
    const most = mostPixels / 1e6
    const message = `expected at most ${most} million pixels, got ${width} × ${height}`
    throw refused('image', message)
  }
  if (type === 'webp' && isAnimated(file)) {
    throw refused('image', 'expected a still image, got an animated WebP file')
  }
  if (type === 'bmp' && isCutOff(file, width * height)) {
    throw refused('image', 'expected a whole BMP file, got the beginning of one')
  }
  return (width * height) / 1e6
}

/** Whether the extended header of a WebP file says that it has several frames, which its decoder does not read. */
const isAnimated = (file: Uint8Array): boolean =>
  Buffer.from(file.subarray(12, 16)).toString('latin1') === 'VP8X' && (file[20]! & 2) !== 0

/** Whether a BMP file is truncated, as its decoder would fill the missing part with black. */
function isCutOff({ buffer, byteOffset, length }: Uint8Array, pixels: number): boolean {
  if (length < 30) return true
  const head = new DataView(buffer, byteOffset, length)
  return length < head.getUint32(10, true) + (pixels * head.getUint16(28, true)) / 8
}

function checkSound(file: Uint8Array): number {
  const seconds = soundLength(file)
  if (seconds === undefined) {
    throw refused('audio', 'expected a WAV, MP3 or FLAC file in base64, got something else')
  }
  if (!(seconds >= leastSeconds && seconds <= mostSeconds)) {
    const expected = `expected ${leastSeconds} to ${mostSeconds} seconds of sound`
    throw refused('audio', `${expected}, got ${seconds.toFixed(2)}`)
  }
  return seconds
}

const refused = (field: MediaType, message: string): CllmError =>
  new CllmError('invalid_media', `${field}: ${message}`, { details: { field } })
