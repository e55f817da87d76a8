import { CllmError } from '@cllm/core'
import { llamaServerProtocol, nativeProtocol, ollamaProtocol } from '@cllm/http-koa'
import t from 'tap'
import { parseKeepAlive } from '../../src/fields/fields.js'
import { samplingSettings, throwInFieldNames } from '../../src/fields/generation-fields.js'
import { testEach } from '../each-client.js'
import { serve } from '../serve.js'

const defined = (settings: object) =>
  Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))

t.test('what would be kept until after all dates is kept for ever', (t) => {
  t.same([3600, '90s', '-0s', 0].map(parseKeepAlive), [3_600_000, 90_000, 0, 0])
  for (const long of [2 ** 53, '9e12', '9000000000000s', '99999999999h']) {
    t.equal(parseKeepAlive(long), Infinity, String(long))
  }
  t.end()
})

t.test('the settings of the fields', async (t) => {
  t.same(defined(samplingSettings({})), {})
  t.same(
    samplingSettings({
      typical_p: 0.9,
      top_n_sigma: 1.5,
      dynatemp_range: 0.3,
      dynatemp_exponent: 2,
      xtc_probability: 0.5,
      xtc_threshold: 0.2,
      dry_multiplier: 0.8,
      dry_base: 2,
      dry_allowed_length: 3,
      dry_penalty_last_n: 100,
      dry_sequence_breakers: ['\n'],
      mirostat: 2,
      mirostat_tau: 4,
      mirostat_eta: 0.2,
      min_keep: 3,
      repeat_last_n: 10,
    }),
    {
      typicalP: 0.9,
      topNSigma: 1.5,
      dynamicTemperatureRange: 0.3,
      dynamicTemperatureExponent: 2,
      xtcProbability: 0.5,
      xtcThreshold: 0.2,
      dryMultiplier: 0.8,
      dryBase: 2,
      dryAllowedLength: 3,
      dryPenaltyLastN: 100,
      drySequenceBreakers: ['\n'],
      mirostat: 2,
      mirostatTau: 4,
      mirostatEta: 0.2,
      minKeep: 3,
      penaltyLastN: 10,
    },
  )
  t.match(samplingSettings({ repeat_last_n: -1 }), { penaltyLastN: 2 ** 31 - 1 })
  const older = { top_n_sigma: -1, dry_base: 0, dry_penalty_last_n: -1, mirostat: 0 }
  t.same(defined(samplingSettings(older)), {
    topNSigma: 0,
    dryPenaltyLastN: 2 ** 31 - 1,
    mirostat: 0,
  })
  t.throws(() => samplingSettings({ mirostat: 1 }), {
    code: 'invalid_request',
    message: 'mirostat: expected 0 or 2, instead got 1',
  })
})

/** What comes of an engine's error. */
function thrownFor(error: Error): unknown {
  try {
    return throwInFieldNames(error)
  } catch (thrown) {
    return thrown
  }
}

t.test("only an engine's own names of fields become a client's", async (t) => {
  const of = (name: string, details: object = { capability: 'samplers', field: name }) =>
    new CllmError('unsupported', `${name}: no`, { details: { ...details } })
  for (const error of [new Error('typicalP: no'), of('typicalP', {}), of('samplers')]) {
    t.equal(thrownFor(error), error)
  }
  for (const [name, field] of [
    ['typicalP', 'typical_p'],
    ['slot', 'id_slot'],
    ['tokens', 'prompt'],
  ] as const) {
    t.match(thrownFor(of(name)), { message: `${field}: no`, details: { field } })
  }
})

testEach('a backend without them refuses by the name of the field', async (t) => {
  const protocols = [nativeProtocol(), llamaServerProtocol(), ollamaProtocol()]
  const server = await serve({ protocols })
  t.teardown(() => server.close())
  const { model } = await server.client.info()
  const bodies = (fields: object): [path: string, body: object][] => [
    ['/generate', { prompt: 'a', max_tokens: 1, ...fields }],
    ['/generate_stream', { prompt: 'a', max_tokens: 1, ...fields }],
    ['/completion', { prompt: 'a', n_predict: 1, ...fields }],
    [
      '/api/generate',
      { model: model.id, prompt: 'a', options: { num_predict: 1, ...fields }, stream: false },
    ],
  ]
  const refused = { typical_p: 0.9, mirostat: 2 }
  for (const [field, value] of Object.entries(refused)) {
    for (const [path, body] of bodies({ [field]: value })) {
      const response = await server.post(path, body)
      t.equal(response.status, 400, path)
      t.match(await response.text(), new RegExp(`${field}: this backend`))
    }
  }
  for (const fields of [
    { typical_p: 1, mirostat: 0, mirostat_tau: 3, mirostat_eta: 0.2 },
    { top_n_sigma: -1, dry_multiplier: 0, xtc_probability: 0, xtc_threshold: 0.3 },
  ]) {
    for (const [path, body] of bodies(fields).slice(0, 3)) {
      t.equal((await server.post(path, body)).status, 200, `${path} with all of them off`)
    }
  }
  const answer = await server.post('/completion', { prompt: 'a', n_predict: 1, dry_base: 3 })
  t.match(await answer.json(), {
    generation_settings: { dry_base: 3, typical_p: 1, top_n_sigma: -1, mirostat: 0 },
  })
  const named = await server.post('/generate', { prompt: 'a', samplers: [{ name: 'none' }] })
  t.equal(named.status, 400)
  t.match(await named.text(), /samplers/)
  for (const samplers of ['dry', ['dry'], [{}], Array.from({ length: 9 }, () => ({ name: 'a' }))]) {
    t.equal((await server.post('/generate', { prompt: 'a', samplers })).status, 400)
  }
})
