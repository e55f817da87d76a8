import { assert, integer, property, uint8Array } from 'fast-check'
import t from 'tap'
import { checkHead } from '../../src/media/file-head.js'
import { CllmError, type MediaType, soundLength } from '@cllm/core'
import { flac, png, wav } from './hostile-files.js'

/** A file of these numbers: `[bytes, value]`, big-endian where the bytes are below 0. */
function file(...parts: readonly (string | readonly [number, number])[]): Buffer {
  return Buffer.concat(
    parts.map((part) => {
      if (typeof part === 'string') return Buffer.from(part, 'latin1')
      const [bytes, value] = part
      const buffer = Buffer.alloc(Math.abs(bytes))
      if (bytes < 0) buffer.writeUIntBE(value, 0, -bytes)
      else buffer.writeUIntLE(value, 0, bytes)
      return buffer
    }),
  )
}

const wave = (more: Parameters<typeof wav>[1]): Buffer =>
  wav(Buffer.alloc(64_000), { channels: 2, ...more })

/** MPEG 1, layer III, 128 kbit/s, 44.1 kHz: 1,152 samples in 417 bytes. */
const frame = (...head: readonly (string | readonly [number, number])[]) => {
  const bytes = Buffer.alloc(417)
  file([-4, 0xff_fb_90_00], ...head).copy(bytes)
  return bytes
}

t.test('the length of a sound is read from its head', async (t) => {
  t.equal(soundLength(wave({})), 1)
  t.equal(soundLength(wave({ bits: 8 })), 2)
  t.equal(soundLength(wave({ format: 17, bits: 4 })), 4, 'ADPCM')
  t.equal(soundLength(wave({ format: 17, bits: 64 })), 4, 'whatever it says of its samples')
  for (const [format, head] of [
    [2, 14],
    [17, 8],
  ] as const) {
    t.equal(soundLength(wave({ format, bits: 4, block: head })), 4)
    const why = 'blocks of ADPCM without a head, beyond which a decoder reads'
    t.equal(soundLength(wave({ format, bits: 4, block: head - 1 })), undefined, why)
  }
  t.equal(soundLength(wave({ noted: 320_000 })), 20, 'what it notes of itself is believed')
  t.equal(soundLength(wave({ rate: 0 })), undefined)
  t.equal(soundLength(flac(48_000, 96_000)), 2)
  t.equal(soundLength(flac(1, 2 ** 36 - 1)), 2 ** 36 - 1)
  const frames = Buffer.concat([frame(), frame(), frame()])
  t.equal(soundLength(frames)?.toFixed(4), '0.0784')
  const tag = file('ID3', [-3, 0x4_00_00], [-4, 0x00_00_01_00], Buffer.alloc(128).toString())
  t.equal(soundLength(Buffer.concat([tag, frames]))?.toFixed(4), '0.0784')
  const gaps = [
    Buffer.alloc(9),
    frame(),
    Buffer.from([0xff, 0, 0xff, 0xff, 1]),
    frame(),
    Buffer.alloc(9),
  ]
  t.equal(soundLength(Buffer.concat([frame(), ...gaps]))?.toFixed(4), '0.0784', 'behind gaps')
  const many = frame(Buffer.alloc(32).toString(), 'Xing', [-4, 1], [-4, 100_000])
  t.equal(soundLength(many)?.toFixed(0), '2612', 'the decoder believes it')
})

function refused(type: MediaType, bytes: Uint8Array): unknown {
  try {
    return checkHead(type, bytes)
  } catch (error) {
    return error
  }
}

t.test('what is too long or no sound is refused', async (t) => {
  t.equal(refused('audio', wave({})), 1, 'its seconds')
  const long = { code: 'invalid_media', message: /1800 seconds/ }
  t.match(refused('audio', wave({ noted: 2 ** 32 - 1 })), long)
  for (const size of [0xffff_ffff, 0x7fff_f000]) {
    const piped = wave({ size })
    t.equal(refused('audio', piped), 1, 'written to a pipe, whose writer knew no length')
    t.equal(piped.readUInt32LE(piped.length - 64_004), 64_000, 'which a decoder would believe')
  }
  const click = wav(Buffer.alloc(2))
  t.match(refused('audio', click), { code: 'invalid_media', message: /0.1 to .*, got 0.00/ })
  t.match(refused('audio', flac(8000, 0)), { code: 'invalid_media' })
  t.match(refused('audio', Buffer.from('\x89PNG\r\n')), { message: /WAV, MP3 or FLAC/ })
  assert(property(uint8Array({ maxLength: 99 }), (bytes) => (refused('audio', bytes), true)))
})

t.test('images are refused before a pixel is decoded', async (t) => {
  t.equal(refused('image', png(8000, 8000)), 64, 'its millions of pixels')
  const large = { code: 'invalid_media', message: /64 million pixels/ }
  t.match(refused('image', png(8001, 8000)), large)
  t.match(refused('image', png(0, 10)), { code: 'invalid_media' })
  const svg = Buffer.from('<svg width="1" height="1"/>')
  t.match(refused('image', svg), { message: /got svg/ })
  const isClear = (file: Uint8Array) => {
    const result = refused('image', file)
    return typeof result === 'number' || CllmError.isInstance(result)
  }
  const whole = png(20, 10)
  assert(
    property(uint8Array({ maxLength: 64 }), integer({ min: 0, max: 28 }), (noise, at) => {
      return isClear(noise) && isClear(Buffer.concat([whole.subarray(0, at), noise]))
    }),
  )
  t.pass('noise, and heads that break off')
  const head = [
    [4, 40],
    [4, 4],
    [4, 2],
    [2, 1],
    [2, 24],
  ] as const
  const picture = file('BM', [4, 78], [4, 0], [4, 54], ...head, ' '.repeat(24), ' '.repeat(24))
  t.equal(refused('image', picture), 8 / 1e6)
  const webp = (flags: number): Buffer => {
    const size = Buffer.from([19, 0, 0, 9, 0, 0]) // 20 x 10
    return Buffer.concat([
      Buffer.from('RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0'),
      Buffer.from([flags, 0, 0, 0]),
      size,
    ])
  }
  t.equal(refused('image', webp(0x10)), 200 / 1e6)
  t.match(refused('image', webp(0x12)), { code: 'invalid_media', message: /animated WebP/ })
  for (const bytes of [26, 29, 54, 77]) {
    t.match(refused('image', picture.subarray(0, bytes)), { message: /a whole BMP/ }, `${bytes}`)
  }
})
