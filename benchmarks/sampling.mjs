// Time to draw one token from logits of 151,936 entries, and from those of 16 sequences one after the
// other: `flat` is noise of deviation 1, where every token counts, `peaked` has the shape of a trained
// model's logits. Nothing is loaded and no forward pass made.
import { parseArgs } from 'node:util'
import { ChainSampler } from '../packages/backend-llamacpp/dist/sampling/chain/chain-sampler.js'
import { SamplerWorkspace } from '../packages/backend-llamacpp/dist/sampling/chain/sampler-workspace.js'
import { defaultSampling } from '../packages/core/dist/index.js'
import { randomOf } from './lib/prompts.mjs'
import { median, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    vocabulary: { type: 'string', default: '151936' },
    rounds: { type: 'string', default: '60' },
  },
})
const size = Number(values.vocabulary)
const sequences = 16
const random = randomOf(1)
const vocabulary = { size, check() {}, endOfGeneration: new Set([2]) }
let given
const context = { logits: () => given, logitsAddress: () => undefined }
const workspace = new SamplerWorkspace(context, vocabulary, { encode: () => [] })
const history = Array.from({ length: 100 }, () => Math.floor(random() * size))

const samplers = {
  greedy: { temperature: 0 },
  'temperature 0.7': {},
  'top_k 40, top_p 0.9': { topK: 40, topP: 0.9 },
  'top_p 0.9': { topP: 0.9 },
  'min_p 0.05': { minP: 0.05 },
  penalties: { repetitionPenalty: 1.1, presencePenalty: 0.5, frequencyPenalty: 0.2 },
}

function gauss() {
  let sum = -6
  for (let index = 0; index < 12; index++) sum += random()
  return sum
}

/** Most tokens far below the few that fit, as after training. */
function peaked() {
  const logits = Float32Array.from({ length: size }, () => gauss() * 2.5)
  for (let rank = 0; rank < 300; rank++) {
    logits[Math.floor(random() * size)] = 20 - 2.2 * Math.log(1 + rank) + gauss() / 2
  }
  return logits
}

function measure(draw) {
  const single = []
  const together = []
  for (let round = -20; round < Number(values.rounds); round++) {
    const started = performance.now()
    for (let sequence = 0; sequence < sequences; sequence++) {
      const began = performance.now()
      draw(sequence, round + 20)
      if (round >= 0) single.push(performance.now() - began)
    }
    if (round >= 0) together.push(performance.now() - started)
  }
  const shown = [Math.min(...single), median(single), Math.min(...together), median(together)]
  return shown.map((ms) => ms.toFixed(3))
}

const rows = []
const shapes = { flat: () => Float32Array.from({ length: size }, gauss), peaked }
for (const [shape, create] of Object.entries(shapes)) {
  const logits = Array.from({ length: sequences }, create)
  for (const [name, change] of Object.entries(samplers)) {
    const params = { ...defaultSampling, ...change, seed: 1 }
    const drawing = logits.map(() => new ChainSampler(workspace, params, history))
    const draw = (sequence, round) => {
      given = logits[sequence]
      drawing[sequence].prepare(99 + (round % 2), 99, [history[99], 7])
      drawing[sequence].draw(0)
    }
    rows.push([shape, name, ...measure(draw)])
  }
  const read = (sequence) => workspace.rawLogprobs(logits[sequence], 7, 20)
  rows.push([shape, '20 log probabilities', ...measure(read)])
}
const heading = ['logits', 'sampler', 'min ms', 'median ms', `${sequences}: min ms`, 'median ms']
console.log(table([heading, ...rows]))
