import { crc32, deflateSync } from 'node:zlib'
import { type MediaType, nextNumber } from '@cllm/core'

/** A file that somebody sends to do harm, or that came to harm. */
export interface HostileFile {
  readonly name: string
  readonly type: MediaType
  readonly file: Buffer
}

/** This many of them, the same for the same seed. */
export function hostileFiles(count: number, seed: number): HostileFile[] {
  let state = seed
  const below = (end: number): number => {
    state = nextNumber(state)
    return Math.floor((state / 2 ** 32) * end)
  }
  const makers = [truncated, flipped, huge, wrong, bomb, polyglot]
  return Array.from({ length: count }, (_, nth) => makers[nth % makers.length]!(below))
}

type Below = (end: number) => number

const number = (bytes: 2 | 4, value: number, isBig = false): Buffer => {
  const buffer = Buffer.alloc(bytes)
  if (isBig) buffer.writeUIntBE(value, 0, bytes)
  else buffer.writeUIntLE(value, 0, bytes)
  return buffer
}

export function png(width: number, height: number, pixels = Buffer.alloc(0), bits = 8): Buffer {
  const chunk = (name: string, data: Buffer) => {
    const named = Buffer.concat([Buffer.from(name), data])
    return Buffer.concat([number(4, data.length, true), named, number(4, crc32(named), true)])
  }
  const size = Buffer.concat([number(4, width, true), number(4, height, true)])
  const head = Buffer.concat([size, Buffer.from([bits, 2, 0, 0, 0])])
  const start = Buffer.from('89504e470d0a1a0a', 'hex')
  const end = [chunk('IDAT', deflateSync(pixels)), chunk('IEND', Buffer.alloc(0))]
  return Buffer.concat([start, chunk('IHDR', head), ...end])
}

const gif = (width: number, height: number): Buffer =>
  Buffer.concat([
    Buffer.from('GIF89a'),
    number(2, width),
    number(2, height),
    Buffer.from('800000ffffff0000002c00000000010001000002024401003b', 'hex'),
  ])

const bmp = (width: number, height: number, pixels: Buffer): Buffer => {
  const sizes = [54 + pixels.length, 0, 54, 40, width, height].map((value) => number(4, value))
  const rest = [number(2, 1), number(2, 24), Buffer.alloc(24)]
  return Buffer.concat([Buffer.from('BM'), ...sizes, ...rest, pixels])
}

/** Six pixels: red, green, blue, and three more. */
export const webp = Buffer.from(
  'UklGRkoAAABXRUJQVlA4TD0AAAAvAkAAAC+goG0bpoXRPf4cLw2FbCNAh3AE5+/4KmjbhmmJnI0/xDf/AfwH8dAeYisJCAQoY8UD20T0P8YLAA==',
  'base64',
)

/** The same, which says that it has another size. */
const lyingWebp = (width: number, height: number): Buffer => {
  const lying = Buffer.from(webp)
  lying.writeUInt32LE(((width & 0x3fff) | ((height & 0x3fff) << 14)) >>> 0, 21)
  return lying
}

interface Wave {
  readonly format?: number
  readonly channels?: number
  readonly rate?: number
  readonly bits?: number
  readonly size?: number
  /** Bytes of a block. */
  readonly block?: number
  /** Samples that a part of its own notes. */
  readonly noted?: number
}

export function wav(samples: Buffer, wave: Wave = {}): Buffer {
  const { format = 1, channels = 1, rate = 16_000, bits = 16, size = samples.length, noted } = wave
  const { block = 64 } = wave
  const head = [number(2, format), number(2, channels), number(4, rate), number(4, 2 * rate)]
  const fact = noted === undefined ? [] : [Buffer.from('fact'), number(4, 4), number(4, noted)]
  return Buffer.concat([
    Buffer.from('RIFF\0\0\0\0WAVEfmt \x10\0\0\0', 'latin1'),
    ...head,
    number(2, block),
    number(2, bits),
    ...fact,
    Buffer.from('data'),
    number(4, size),
    samples,
  ])
}

export const flac = (rate: number, samples: number): Buffer => {
  const head = Buffer.alloc(34)
  head.writeUIntBE(rate * 16, 10, 3)
  head.writeUIntBE(samples, 13, 5)
  return Buffer.concat([Buffer.from('fLaC\x80\0\0\x22', 'latin1'), head, Buffer.alloc(64)])
}

function mp3(frames: number, noted = 0): Buffer {
  const frame = Buffer.alloc(417)
  frame.writeUInt32BE(0xff_fb_90_00)
  const first = Buffer.from(frame)
  if (noted > 0) first.write('Xing\0\0\0\x01', 36, 'latin1')
  if (noted > 0) first.writeUInt32BE(noted, 44)
  return Buffer.concat([first, ...Array.from({ length: frames }, () => frame)])
}

/** Nothing is wrong with these. */
function good(below: Below): HostileFile {
  const [width, height] = [1 + below(40), 1 + below(40)]
  const noise = (length: number) => Buffer.from(Array.from({ length }, () => below(256)))
  const rows = noise(height * (3 * width + 1)).map((byte, at) => (at % (3 * width + 1) ? byte : 0))
  const files: [string, MediaType, Buffer][] = [
    ['png', 'image', png(width, height, Buffer.from(rows))],
    ['gif', 'image', gif(width, height)],
    ['webp', 'image', webp],
    ['bmp', 'image', bmp(width, height, noise(height * Math.ceil((3 * width) / 4) * 4))],
    ['wav', 'audio', wav(noise(2 * (400 + below(4000))))],
    ['mp3', 'audio', mp3(1 + below(20))],
    ['flac', 'audio', flac(16_000, 1 + below(9999))],
  ]
  const [name, type, file] = files[below(files.length)]!
  return { name, type, file }
}

function truncated(below: Below): HostileFile {
  const { name, type, file } = good(below)
  return { name: `cut ${name}`, type, file: file.subarray(0, below(file.length)) }
}

function flipped(below: Below): HostileFile {
  const { name, type, file } = good(below)
  const changed = Buffer.from(file)
  for (let times = below(12); times >= 0; times--) {
    changed[below(below(2) === 0 ? Math.min(64, file.length) : file.length)]! ^= 1 << below(8)
  }
  return { name: `flipped ${name}`, type, file: changed }
}

function huge(below: Below): HostileFile {
  const side = () => [0, 1, 65_535, 65_536, 2 ** 24, 2 ** 31 - 1, 2 ** 32 - 1][below(7)]!
  const [width, height] = [side(), side()]
  const pixels = Buffer.alloc(below(1000))
  const files = [
    png(width, height, pixels),
    gif(width % 65_536, height % 65_536),
    bmp(width, height, pixels),
    lyingWebp(width, height),
  ]
  return { name: `${width} × ${height}`, type: 'image', file: files[below(4)]! }
}

function wrong(below: Below): HostileFile {
  const texts = [
    '',
    '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"/>',
    '%PDF-1.7\n',
    'PK\x03\x04',
    '\x7fELF',
    'RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0',
    'II*\0\x08\0\0\0',
    '#EXTM3U\nfile:///etc/passwd\n',
    'OggS\0\x02',
    '\0\0\0\x20ftypavif',
  ]
  const text = texts[below(texts.length)]!
  const file = Buffer.concat([Buffer.from(text, 'latin1'), Buffer.alloc(below(500), below(256))])
  return { name: JSON.stringify(text.slice(0, 12)), type: below(2) ? 'image' : 'audio', file }
}

/** Small files that ask for much memory. */
function bomb(below: Below): HostileFile {
  const files: [string, MediaType, () => Buffer][] = [
    ['more pixels than said', 'image', () => png(10, 10, Buffer.alloc(2 ** 22 + below(2 ** 20)))],
    ['16 million columns', 'image', () => png(2 ** 24 - 1, 3, Buffer.alloc(1000))],
    ['16 million rows', 'image', () => png(3, 2 ** 24 - 1, Buffer.alloc((2 ** 24 - 1) * 10))],
    ['8000 × 8000 and nothing', 'image', () => png(8000, 8000, Buffer.alloc(10))],
    ['64 million pixels of WebP', 'image', () => lyingWebp(7999, 7999)],
    ['64 million pixels of 16 bits', 'image', () => png(8000, 8000, Buffer.alloc(1), 16)],
    ['4 GB of sound', 'audio', () => wav(Buffer.alloc(100), { size: 2 ** 32 - 1 })],
    ['one sample a second', 'audio', () => wav(Buffer.alloc(2e5), { rate: 1 })],
    ['65,535 channels', 'audio', () => wav(Buffer.alloc(2e5), { channels: 65_535 })],
    ['ADPCM', 'audio', () => wav(Buffer.alloc(2e5), { format: 17, bits: 65_535, rate: 8 })],
    ['a week of FLAC', 'audio', () => flac(1 + below(48_000), 2 ** 36 - 1 - below(9))],
    ['a year of MP3', 'audio', () => mp3(3, 2 ** 32 - 1 - below(2 ** 31))],
    ['hours of MP3', 'audio', () => mp3(80_000)],
  ]
  const [name, type, file] = files[below(files.length)]!
  return { name, type, file: file() }
}

/** Files that begin as one thing and are another. */
function polyglot(below: Below): HostileFile {
  const [one, other] = [good(below), good(below)]
  const heads = [
    'ID3\x04\0\0\0\0\x02\x01',
    'RIFF\x24\0\0\0WAVE',
    'fLaC',
    '\xff\xfb\x90\0',
    'BM',
    'GIF89a',
  ]
  const head = Buffer.from(heads[below(heads.length)]!, 'latin1')
  const files = [
    Buffer.concat([one.file, other.file]),
    Buffer.concat([head, one.file]),
    Buffer.concat([one.file.subarray(0, 12), other.file.subarray(12)]),
  ]
  const type = below(2) ? one.type : other.type
  return { name: `${one.name} and ${other.name}`, type, file: files[below(3)]! }
}
