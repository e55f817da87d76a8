// What a grammar costs: the step time of sequences that each keep to a JSON schema, against the same
// sequences without one, alternating in one run.
import { parseArgs } from 'node:util'
import { startEngine } from './lib/engine.mjs'
import { randomOf, text } from './lib/prompts.mjs'
import { pause } from './lib/servers.mjs'
import { median, quantile, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    sequences: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '5' },
    tokens: { type: 'string', default: '48' },
    words: { type: 'string', default: '32' },
    'ctx-size': { type: 'string', default: '1024' },
    temperature: { type: 'string', default: '0.7' },
    gpu: { type: 'string', default: 'off' },
    seed: { type: 'string', default: '1' },
  },
})
const random = randomOf(Number(values.seed))
const sequences = Number(values.sequences)
const tokens = Number(values.tokens)

/** Long enough that no output ends in the measured time. */
const schema = {
  type: 'array',
  minItems: 50,
  items: {
    type: 'object',
    properties: {
      name: { type: 'string', maxLength: 40 },
      age: { type: 'integer', minimum: 0, maximum: 120 },
    },
    required: ['name', 'age'],
    additionalProperties: false,
  },
}

const { client, kill, ended } = await startEngine({
  modelPath: values.model,
  modelId: 'bench',
  slots: sequences,
  contextSize: Number(values['ctx-size']),
  gpu: values.gpu,
})

/** The mean step, and its sampling, while all sequences decode. */
async function measure(constraint) {
  const sampling = {
    temperature: Number(values.temperature),
    topK: 40,
    topP: 0.9,
    ignoreEos: true,
    seed: 1,
    ...(constraint && { constraint }),
  }
  const prompts = Array.from({ length: sequences }, () => text(Number(values.words), random))
  let running = 0
  let allDecode
  const decoding = new Promise((resolve) => (allDecode = resolve))
  const stop = new AbortController()
  const one = async (words) => {
    const request = { prompt: { text: `List some people: ${words}` }, maxTokens: 600, sampling }
    const events = client.submit(request, { signal: stop.signal })
    await events.next()
    await events.next()
    if (++running === sequences) allDecode()
    for await (const _ of events);
  }
  const all = Promise.allSettled(prompts.map(one))
  await decoding
  const from = await client.statistics()
  let to = from
  while (to.steps < from.steps + tokens) {
    await pause(50)
    to = await client.statistics()
  }
  stop.abort()
  await all
  const steps = to.steps - from.steps
  return {
    step: (to.busyMs - from.busyMs) / steps,
    sample: (to.sampleMs - from.sampleMs) / steps,
  }
}

const sides = [
  ['free', undefined],
  // Which refuses what is no text alone, as a good model's choices are hardly ever refused.
  ['any text', { type: 'regex', pattern: '[^\\u0000]*' }],
  ['JSON schema', { type: 'json-schema', schema }],
]
for (const [, constraint] of sides) await measure(constraint)
const results = new Map(sides.map(([name]) => [name, []]))
for (let round = 0; round < Number(values.rounds); round++) {
  for (const [name, constraint] of round % 2 === 0 ? sides : sides.toReversed()) {
    results.get(name).push(await measure(constraint))
    await pause(300)
  }
}

const rows = [['side', 'step ms', 'of free', 'of which sampling ms', 'largest sampling ms']]
for (const [name] of sides) {
  const all = results.get(name)
  const ratios = all.map(({ step }, round) => step / results.get('free')[round].step)
  const samples = all.map(({ sample }) => sample)
  rows.push([
    name,
    median(all.map(({ step }) => step)).toFixed(1),
    median(ratios).toFixed(3),
    median(samples).toFixed(2),
    quantile(samples, 1).toFixed(2),
  ])
}
console.log(table(rows))
kill()
await ended
