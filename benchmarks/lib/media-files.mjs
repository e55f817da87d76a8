// Images and sounds for measurements, made here.
import { deflateSync, crc32 } from 'node:zlib'

/** A PNG of random rectangles. */
export function png(width, height, random) {
  const pixels = Buffer.alloc((3 * width + 1) * height)
  for (let shape = 0; shape < 12; shape++) {
    const [x, y] = [Math.floor(random() * width), Math.floor(random() * height)]
    const [right, bottom] = [x + random() * width, y + random() * height]
    const color = [random(), random(), random()].map((part) => Math.floor(256 * part))
    for (let row = y; row < Math.min(height, bottom); row++) {
      for (let column = x; column < Math.min(width, right); column++) {
        pixels.set(color, (3 * width + 1) * row + 1 + 3 * column)
      }
    }
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 2], 8)
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    part('IHDR', head),
    part('IDAT', deflateSync(pixels)),
    part('IEND', Buffer.alloc(0)),
  ])
}

function part(name, data) {
  const named = Buffer.concat([Buffer.from(name), data])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(named))
  return Buffer.concat([length, named, sum])
}

/** A WAV of a tone with noise: 16 bits, one channel. */
export function wav(seconds, random, rate = 16_000) {
  const samples = Math.floor(seconds * rate)
  const file = Buffer.alloc(44 + 2 * samples)
  file.write('RIFF')
  file.writeUInt32LE(36 + 2 * samples, 4)
  file.write('WAVEfmt ', 8)
  file.writeUInt32LE(16, 16)
  for (const [at, value] of [1, 1].entries()) file.writeUInt16LE(value, 20 + 2 * at)
  file.writeUInt32LE(rate, 24)
  file.writeUInt32LE(2 * rate, 28)
  file.writeUInt16LE(2, 32)
  file.writeUInt16LE(16, 34)
  file.write('data', 36)
  file.writeUInt32LE(2 * samples, 40)
  const pitch = 100 + 900 * random()
  for (let at = 0; at < samples; at++) {
    const value = Math.sin((2 * Math.PI * pitch * at) / rate) + 0.2 * random()
    file.writeInt16LE(Math.round(12_000 * value), 44 + 2 * at)
  }
  return file
}
