import * as fc from 'fast-check'
import t from 'tap'
import { quantizeQ8_0 } from '@cllm/gguf'
import { decodeQ8_0 } from '../decode-blocks.js'

t.test('values come back within half a step and the rounding of the scale', (t) => {
  const value = fc.float({ min: -8e6, max: 8e6, noNaN: true })
  fc.assert(
    fc.property(fc.array(value, { minLength: 32, maxLength: 96 }), (list) => {
      const values = Float32Array.from(list.slice(0, list.length - (list.length % 32)))
      const decoded = decodeQ8_0(quantizeQ8_0(values))
      for (let start = 0; start < values.length; start += 32) {
        const block = values.subarray(start, start + 32)
        const step = Math.max(...block.map(Math.abs)) / 127
        // 2^-11: half precision has 11 significant bits; 2^-25: half of its smallest step
        const bound = step * 0.5001 + 127 * Math.max(step * 2 ** -11, 2 ** -25)
        block.forEach((original, index) => {
          const error = Math.abs((decoded[start + index] ?? Number.NaN) - original)
          if (!(error <= bound)) throw new Error(`${original} came back ${error} off, > ${bound}`)
        })
      }
    }),
    { numRuns: 500 },
  )
  t.end()
})

t.test('blocks are laid out as ggml has them', (t) => {
  const values = new Float32Array(64)
  values[0] = 127
  values[1] = -127
  values[2] = 63.6
  const quantized = quantizeQ8_0(values)
  t.equal(quantized.length, 2 * 34)
  t.same([...quantized.subarray(0, 5)], [0x00, 0x3c, 127, 256 - 127, 64], 'scale 1.0, then quants')
  t.same(quantized.subarray(34), new Uint8Array(34), 'a block of zeros')
  t.throws(() => quantizeQ8_0(new Float32Array(33)), {
    message: 'expected a multiple of 32 values for Q8_0, got 33',
  })
  t.end()
})
