// What the costs of passes allow at best, with any scheduler: the longest pause of four streams against the first
// token of a long prompt beside them, and requests that begin with the same new prefix. Over a server that computes
// the whole prompt in one step, and each prefix anew, as llama-server does. With costs that were measured just before:
//
//   cllm bench calibrate --model MODEL --slots 16 --out cost.json
//   node benchmarks/limits.mjs --cost cost.json
import { parseArgs } from 'node:util'
import { readCosts } from '../packages/bench/dist/index.js'
import { table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    cost: { type: 'string', default: 'two-cores' },
    // the long prompt, and the prefix
    tokens: { type: 'string', default: '1200,400' },
    streams: { type: 'string', default: '4' },
    clients: { type: 'string', default: '8' },
    // of each client: tokens behind the prefix, and drawn
    own: { type: 'string', default: '16' },
    drawn: { type: 'string', default: '16' },
  },
})
const { stepMs, copyMs, chunkMultiple } = readCosts(values.cost)
const [prompt, prefix] = values.tokens.split(',').map(Number)
const count = Number(values.streams)

/** Sequences that each have a token or more to compute behind so many others. */
const sequences = (number, tokens, context) =>
  Array.from({ length: number }, (_, slot) => ({ slot, tokens, context }))

/** What is shorter than a tile of attention is filled up to one where that is quicker. */
const quickest = (step, tokens) => Math.min(step(tokens), step(Math.max(tokens, chunkMultiple)))

/** From one token of the streams to the next, with a chunk of the long prompt between. */
const stepWith = (tokens, context) =>
  stepMs(sequences(count, 1, 60)) +
  quickest((chunk) => stepMs(sequences(1, chunk, context)), tokens)

/** Chunks as large as a limit allows: how long the longest step takes, and all of them. */
function inChunks(limitMs) {
  let [longest, whole] = [0, 0]
  for (let done = 0; done < prompt;) {
    const left = prompt - done
    let tokens = chunkMultiple
    while (tokens < left && stepWith(Math.min(tokens + chunkMultiple, left), done) <= limitMs)
      tokens += chunkMultiple
    tokens = Math.min(tokens, left)
    const ms = stepWith(tokens, done)
    longest = Math.max(longest, ms)
    whole += ms
    done += tokens
  }
  return { longest, whole }
}

const atOnce = stepWith(prompt, 0)
const rows = [
  ['largest pause, ms', "the prompt's first token, ms", 'pause, ratio', 'first token, ratio'],
]
for (let limit = atOnce; rows.length < 12; limit /= 1.4) {
  const { longest, whole } = inChunks(limit)
  const ratios = [longest / atOnce, whole / atOnce].map((ratio) => ratio.toFixed(3))
  rows.push([longest.toFixed(0), whole.toFixed(0), ...ratios])
}
console.log(table(rows))

const clients = Number(values.clients)
const [own, drawn] = [Number(values.own), Number(values.drawn)]
const decodes = (drawn - 1) * stepMs(sequences(clients, 1, prefix + own + drawn / 2))
const anew = stepMs(sequences(clients, prefix + own, 0)) + decodes
const once =
  stepMs(sequences(1, prefix, 0)) +
  (clients - 1) * copyMs(prefix) +
  quickest((tokens) => stepMs(sequences(clients, tokens, prefix)), own) +
  decodes
console.log(
  `\na new prefix of ${clients} requests: ${once.toFixed(0)} ms at best over ${anew.toFixed(0)}`,
)
console.log(
  `tokens/s over a server that computes it ${clients} times: at most ${(anew / once).toFixed(2)}`,
)
