/** An image with three bytes per pixel, line by line. */
interface Picture {
  readonly width: number
  readonly height: number
  readonly pixels: Uint8Array
}

/** The most pixels per side at low detail, as with OpenAI. */
export const lowDetail = 512

/** Scales a picture down to at most `most` pixels per side, by averaging; a smaller one is returned as it is. */
export function shrinkImage(picture: Picture, most: number): Picture {
  const scale = most / Math.max(picture.width, picture.height)
  if (scale >= 1) return picture
  const width = Math.max(1, Math.round(picture.width * scale))
  const height = Math.max(1, Math.round(picture.height * scale))
  const pixels = new Uint8Array(new ArrayBuffer(3 * width * height))
  for (let y = 0; y < height; y++) {
    const rows = within(y, height, picture.height)
    for (let x = 0; x < width; x++) {
      pixels.set(meanOf(picture, within(x, width, picture.width), rows), 3 * (y * width + x))
    }
  }
  return { width, height, pixels }
}

type Range = readonly [from: number, to: number]

/** The range of `all` source pixels for one of `count` target pixels; at least one. */
const within = (index: number, count: number, all: number): Range => [
  Math.floor((index * all) / count),
  Math.ceil(((index + 1) * all) / count),
]

function meanOf({ pixels, width }: Picture, [left, right]: Range, [top, bottom]: Range): number[] {
  let [red, green, blue] = [0, 0, 0]
  for (let y = top; y < bottom; y++) {
    for (let at = 3 * (y * width + left); at < 3 * (y * width + right); at += 3) {
      red += pixels[at]!
      green += pixels[at + 1]!
      blue += pixels[at + 2]!
    }
  }
  return [red, green, blue].map((sum) => Math.round(sum / ((right - left) * (bottom - top))))
}
