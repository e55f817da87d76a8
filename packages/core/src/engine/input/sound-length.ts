import { attempt } from '../../errors/cllm-error.js'

/**
 * The length of a WAV, MP3 or FLAC file in seconds, and at least what its header claims, as a decoder allocates that
 * much. Undefined for other files and truncated headers. A WAV file that was written to a pipe claims to be endless: its
 * header is corrected.
 */
export function soundLength(file: Uint8Array): number | undefined {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength)
  const mark: Mark = (at) => String.fromCharCode(...file.subarray(at, at + 4))
  // It throws a `RangeError` where the file ends before its head does.
  return attempt(() => {
    if (mark(0) === 'RIFF' && mark(8) === 'WAVE') return waveLength(view, mark)
    return mark(0) === 'fLaC' ? flacLength(view) : mp3Length(file, view, mark)
  })
}

/** Four letters of the file. */
type Mark = (at: number) => string

/** Formats with a fixed number of bytes per sample: integers, floats, A-law and µ-law. */
const plainFormats = [1, 3, 6, 7]

/** Bytes of a block's header per channel, of Microsoft's and IMA's ADPCM. */
const blockHeads: Readonly<Record<number, number>> = { 2: 7, 17: 4 }

function waveLength(view: DataView, mark: Mark): number | undefined {
  let [rate, samplesPerByte, noted] = [0, 0, 0]
  for (let at = 12; at + 8 <= view.byteLength;) {
    const size = view.getUint32(at + 4, true)
    if (mark(at) === 'fmt ') {
      const number = (offset: number): number => view.getUint16(at + 8 + offset, true)
      const [channels, bits] = [number(2), number(14)]
      const format = number(0) === 0xfffe ? number(24) : number(0)
      rate = view.getUint32(at + 12, true)
      // A decoder would read far beyond a block that is shorter than its header.
      if (number(12) < (blockHeads[format] ?? 0) * channels) return undefined
      const bytes = bits % 8 === 0 ? (bits * channels) / 8 : number(12)
      samplesPerByte = plainFormats.includes(format) ? 1 / bytes : 2 / channels
    }
    if (mark(at) === 'fact') noted = view.getUint32(at + 8, true)
    if (mark(at) === 'data') {
      const there = Math.min(size, view.byteLength - at - 8)
      if (there < size) view.setUint32(at + 4, there, true)
      const seconds = Math.max(there * samplesPerByte, noted) / rate
      return Number.isFinite(seconds) ? seconds : undefined
    }
    at += 8 + size + (size % 2)
  }
  return undefined
}

/** The first block of a FLAC file has the sample rate in 20 bits, and the number of samples in 36. */
function flacLength(view: DataView): number | undefined {
  const rate = view.getUint32(18) >>> 12
  const samples = (view.getUint8(21) % 16) * 2 ** 32 + view.getUint32(22)
  return rate > 0 ? samples / rate : undefined
}

/** Kilobits per second by the index in a frame's header: MPEG 1, and MPEG 2 and 2.5. */
const bitrates = [
  [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
] as const
const sampleRates = [44_100, 48_000, 32_000] as const

/** The length of all frames, or what the first frame claims if that is more. */
function mp3Length(file: Uint8Array, view: DataView, mark: Mark): number | undefined {
  let at = 0
  const isTagged = mark(0).startsWith('ID3')
  if (isTagged) {
    // four bytes of seven bits each
    for (let byte = 6; byte < 10; byte++) at = at * 128 + (view.getUint8(byte) % 128)
    at += 10
  }
  let [seconds, noted] = [0, 0]
  while (at + 4 <= view.byteLength) {
    const head = view.getUint32(at)
    const version = (head >>> 19) % 4
    const rate = sampleRates[(head >>> 10) % 4]
    const bitrate = bitrates[version === 3 ? 0 : 1][((head >>> 12) % 16) - 1]
    const isFrame = head >>> 21 === 0x7ff && version !== 1 && (head >>> 17) % 4 === 1
    if (!isFrame || rate === undefined || bitrate === undefined) {
      if (seconds === 0 && !isTagged) return undefined
      const next = file.indexOf(0xff, at + 1)
      if (next < 0) break
      at = next
      continue
    }
    const [samples, divisor] = version === 3 ? [1152, 1] : [576, version === 2 ? 2 : 4]
    const length = (samples * divisor) / rate
    const bytes = Math.floor(125 * bitrate * length) + ((head >>> 9) % 2)
    if (seconds === 0) noted = length * notedFrames(view, mark, at, Math.min(bytes, 64))
    seconds += length
    at += bytes
  }
  return seconds === 0 ? undefined : Math.max(seconds, noted)
}

/** The number of frames that an MP3 file claims in its first frame. */
function notedFrames(view: DataView, mark: Mark, frame: number, bytes: number): number {
  for (let at = frame + 4; at + 12 < frame + bytes; at++) {
    if (['Xing', 'Info'].includes(mark(at))) return view.getUint32(at + 8)
  }
  return 0
}
