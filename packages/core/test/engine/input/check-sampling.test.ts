import { defaultSampling, type SamplingParams } from '@cllm/core'
import t from 'tap'
import { checkSampling } from '../../../src/engine/input/check-sampling.js'

const check = (change: Readonly<Record<string, unknown>>, samplers?: boolean) =>
  checkSampling(
    { ...defaultSampling, seed: 1, ...change },
    samplers === undefined ? {} : { samplers },
  )

/** What switches on one that needs the logits. */
const switched: Partial<SamplingParams>[] = [
  { typicalP: 0.9 },
  { topNSigma: 1 },
  { dynamicTemperatureRange: 0.5 },
  { xtcProbability: 0.5 },
  { dryMultiplier: 0.8 },
  { mirostat: 2 },
  { samplers: [{ name: 'any' }] },
]

t.test('what needs a backend that sees the logits', async (t) => {
  t.doesNotThrow(() => check({}))
  t.doesNotThrow(() =>
    check({ samplers: [], xtcThreshold: 0.3, mirostatTau: 2, dryBase: 2 }, false),
  )
  for (const change of switched) {
    const [field] = Object.keys(change)
    for (const samplers of [undefined, false]) {
      t.throws(() => check(change, samplers), {
        code: 'unsupported',
        details: { field, capability: 'samplers' },
        message: new RegExp(`^${field}: `),
      })
    }
    t.doesNotThrow(() => check(change, true))
  }
})

t.test('what is out of range', async (t) => {
  const wrong: Readonly<Record<string, readonly unknown[]>> = {
    temperature: [-1, 101, NaN, '1'],
    topK: [-1, 1.5],
    typicalP: [-0.1, 1.1],
    topNSigma: [-1, Infinity],
    dynamicTemperatureRange: [-1],
    dynamicTemperatureExponent: [-1],
    xtcProbability: [2],
    xtcThreshold: [-1],
    dryMultiplier: [-1],
    dryBase: [0.5],
    dryAllowedLength: [1.5],
    dryPenaltyLastN: [-1],
    drySequenceBreakers: ['\n', [''], [3], ['x'.repeat(41)], Array.from({ length: 33 }, () => 'a')],
    mirostat: [1, 3, true],
    mirostatTau: [-1],
    mirostatEta: [null],
    ignoreEos: [1],
  }
  for (const [field, values] of Object.entries(wrong)) {
    for (const value of values) {
      t.throws(() => check({ [field]: value }, true), {
        code: 'invalid_request',
        details: { field },
      })
    }
  }
})
