import { assert, property, uint8Array } from 'fast-check'
import t from 'tap'
import { checkHead } from '../../src/media/file-head.js'
import { soundLength } from '@cllm/core'

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

interface Wave {
  readonly format?: number
  readonly bits?: number
  readonly rate?: number
  readonly size?: number
  readonly noted?: number
}

function wave({ format = 1, bits = 16, rate = 16_000, size = 64_000, noted = 0 }: Wave): Buffer {
  const head = [
    [4, 16],
    [2, format],
    [2, 2],
    [4, rate],
    [4, 0],
    [2, 4],
    [2, bits],
  ] as const
  const fact = noted > 0 ? (['fact', [4, 4], [4, noted]] as const) : []
  return file('RIFF', [4, 0], 'WAVEfmt ', ...head, ...fact, 'data', [4, size])
}

const flac = (rate: number, samples: number) =>
  file('fLaC', [-4, 34], [-4, 0], [-6, 0], [-3, rate * 16], [-5, samples])

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

t.test('what is too long or no sound is refused', async (t) => {
  const refused = (bytes: Uint8Array): unknown => {
    try {
      return checkHead('audio', bytes)
    } catch (error) {
      return error
    }
  }
  t.equal(refused(wave({})), 1, 'its seconds')
  t.match(refused(wave({ size: 0xffff_ffff })), { code: 'invalid_media', message: /1800 seconds/ })
  t.match(refused(flac(8000, 0)), { code: 'invalid_media' })
  t.match(refused(Buffer.from('\x89PNG\r\n')), { message: /WAV, MP3 or FLAC/ })
  assert(property(uint8Array({ maxLength: 99 }), (bytes) => (refused(bytes), true)))
})
