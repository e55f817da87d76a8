// What a pass costs with KV cells for each slot and with one pool of cells for all (`--kv-unified on`):
// decodes of several sequences at several lengths, alone and beside a prompt's chunk. One backend for
// each layout, in turns.
import { parseArgs } from 'node:util'
import { defaultSampling, silentLogger, systemClock } from '../packages/core/dist/index.js'
import { createLlamaCppBackend } from '../packages/backend-llamacpp/dist/index.js'
import { randomOf } from './lib/prompts.mjs'
import { median, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    contexts: { type: 'string', default: '64,256,1024,4000' },
    sequences: { type: 'string', default: '1,4,16' },
    chunk: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '5' },
    gpu: { type: 'string', default: 'off' },
    // a library of this machine's own, as `cllm native` names it
    library: { type: 'string' },
  },
})
const contexts = values.contexts.split(',').map(Number)
const counts = values.sequences.split(',').map(Number)
const chunk = Number(values.chunk)
const rounds = Number(values.rounds)
const slots = Math.max(...counts) + 1
const contextSize = Math.max(...contexts) + rounds + 2
const random = randomOf(1)

const layouts = { 'own cells': 'off', 'one pool': 'on' }
const backends = []
for (const kvUnified of Object.values(layouts)) {
  // Threads that poll would keep the cores from the other backend.
  const options = {
    modelPath: values.model,
    slots,
    contextSize,
    kvUnified,
    gpu: values.gpu,
    poll: 0,
  }
  const dependencies = { clock: systemClock, logger: silentLogger, library: values.library }
  backends.push(await createLlamaCppBackend(options, dependencies))
}
const [{ tokenizer, limits }] = backends
const token = () => Math.floor(random() * (tokenizer.vocabularySize - 1000))
const tokens = Array.from({ length: Math.max(...contexts) }, token)

/** Fills all slots but the last with as many tokens, each with cells of its own. */
async function fill(backend, from, to) {
  for (let at = from; at < to; at += limits.batchSize) {
    const part = tokens.slice(at, Math.min(to, at + limits.batchSize))
    await backend.step([{ slot: 0, position: at, tokens: part, outputs: [] }])
  }
  const state = Uint8Array.from(await backend.states.save(0))
  for (let slot = 1; slot < slots - 1; slot++) {
    await backend.states.restore(slot, state, { tokens: to })
  }
}

/** Milliseconds of a pass of these sequences, with or without a chunk of another one's prompt. */
async function pass(backend, sequences, context, withChunk) {
  const samplers = []
  const decodes = Array.from({ length: sequences }, (_, slot) => {
    const sampler = backend.createSampler({ ...defaultSampling, temperature: 0, seed: 1 }, [])
    samplers.push(sampler)
    return { slot, position: context, tokens: [token()], outputs: [context], sampler }
  })
  const prompt = Array.from({ length: chunk }, token)
  const more = withChunk ? [{ slot: slots - 1, position: 0, tokens: prompt, outputs: [] }] : []
  const began = performance.now()
  await backend.step([...decodes, ...more])
  const ms = performance.now() - began
  for (const sampler of samplers) sampler.dispose()
  for (let slot = 0; slot < sequences; slot++) backend.truncate(slot, context)
  backend.release(slots - 1)
  return ms
}

const rows = [['tokens', 'sequences', 'beside', ...Object.keys(layouts), 'pool ÷ own'].map(String)]
let filled = 0
for (const context of contexts.toSorted((a, b) => a - b)) {
  for (const backend of backends) await fill(backend, filled, context)
  filled = context
  for (const sequences of counts) {
    for (const withChunk of [false, true]) {
      const times = backends.map(() => [])
      for (let round = -1; round < rounds; round++) {
        const order = round % 2 === 0 ? [0, 1] : [1, 0]
        for (const at of order) {
          const ms = await pass(backends[at], sequences, context, withChunk)
          if (round >= 0) times[at].push(ms)
        }
      }
      const ratio = median(times[1].map((ms, round) => ms / times[0][round]))
      const beside = withChunk ? `a chunk of ${chunk}` : '–'
      const middle = times.map((all) => median(all).toFixed(1))
      rows.push([context, sequences, beside, ...middle, ratio.toFixed(3)])
    }
  }
}
console.log(table(rows))
for (const backend of backends) await backend.dispose()
process.exit(0)
