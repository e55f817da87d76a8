/** Three bytes for each pixel, line by line. */
interface Picture {
  readonly width: number
  readonly height: number
  readonly pixels: Uint8Array
}

/** Pixels a side at low detail, as OpenAI has it. */
export const lowDetail = 512

/** A picture of at most so many pixels a side, each the mean of those in its place; the same one where it is as small. */
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

/** Which of `all` are in the place of one of `count`: one at least. */
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
