import { CllmError } from '@cllm/core'
import { imageSize } from 'image-size'

/** Formats that libmtmd decodes. */
const formats = ['png', 'jpg', 'gif', 'bmp']

/** Decoded, it takes three bytes each. */
const mostPixels = 64_000_000

/**
 * Reads the head of a file, before any pixel is decoded.
 * @throws CllmError `invalid_media` that says what was expected and what came
 */
export function checkImage(file: Uint8Array): void {
  const { type, width, height } = headOf(file)
  if (type === undefined || !formats.includes(type)) {
    throw refused(`expected a PNG, JPEG, GIF or BMP file, got ${type ?? 'something else'}`)
  }
  if (!(width > 0 && height > 0 && width * height <= mostPixels)) {
    const most = mostPixels / 1e6
    throw refused(`expected at most ${most} million pixels, got ${width} × ${height}`)
  }
}

function headOf(file: Uint8Array) {
  try {
    return imageSize(file)
  } catch {
    throw refused('expected a PNG, JPEG, GIF or BMP file in base64, got something else')
  }
}

const refused = (message: string): CllmError =>
  new CllmError('invalid_media', `image: ${message}`, { details: { field: 'image' } })
