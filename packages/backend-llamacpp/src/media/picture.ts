import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { attempt } from '@cllm/core'

/** An image with three bytes per pixel, line by line. */
export interface Picture {
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

/** The parts that are used: TypeScript has the types of this global among the DOM's. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports: object) => { readonly exports: Libwebp }
}

/** The exports of libwebp; addresses are numbers, 0 is none. */
interface Libwebp {
  readonly memory: { readonly buffer: ArrayBuffer }
  malloc(bytes: number): number
  /** Returns the address of four bytes per pixel; writes two 32-bit integers. */
  WebPDecodeRGBA(file: number, bytes: number, width: number, height: number): number
}

const require = createRequire(import.meta.url)
let libwebp: object | undefined

/** What the module imports: how messages are printed, which libwebp never does here. */
const system = { fd_write: () => 0, fd_seek: () => 0, fd_close: () => 0 }

/** Whether a file begins as WebP files do. */
export const isWebp = (file: Uint8Array): boolean =>
  /^RIFF.{4}WEBP/s.test(Buffer.from(file.subarray(0, 12)).toString('latin1'))

/**
 * Decodes a WebP file, which libmtmd cannot; undefined if it is damaged or animated. What is transparent has the colour
 * below, as in other formats.
 */
export function decodeWebp(file: Uint8Array): Picture | undefined {
  libwebp ??= new WebAssembly.Module(readFileSync(require.resolve('@cwasm/webp/webp.wasm')))
  // one for each file: its memory never shrinks, and a file that corrupts it harms nothing else
  const { exports } = new WebAssembly.Instance(libwebp, { wasi_snapshot_preview1: system })
  const size = exports.malloc(8)
  const at = exports.malloc(file.length)
  new Uint8Array(exports.memory.buffer).set(file, at)
  const decoded = attempt(() => exports.WebPDecodeRGBA(at, file.length, size, size + 4), 0)
  if (decoded === 0) return undefined
  const [width = 0, height = 0] = new Uint32Array(exports.memory.buffer, size, 2)
  const colours = new Uint8Array(exports.memory.buffer, decoded, 4 * width * height)
  const pixels = new Uint8Array(new ArrayBuffer(3 * width * height))
  // three of four bytes
  for (let to = 0; to < pixels.length; to++) pixels[to] = colours[to + Math.floor(to / 3)]!
  return { width, height, pixels }
}
