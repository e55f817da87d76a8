// Log probabilities of prompts (`/v1/completions` with `echo`), against those that llama-perplexity saves.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startServer } from './lib/servers.mjs'
import { sum } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    'llama-perplexity': { type: 'string' },
    // tokens of each text; llama-perplexity saves the second half of each
    tokens: { type: 'string', default: '64' },
    texts: { type: 'string', default: '60' },
    // tokens that llama-perplexity computes at a time: rounding depends on it
    chunk: { type: 'string', default: '32' },
    // what begins each text: llama-perplexity puts it in place of the first token
    bos: { type: 'string' },
    extra: { type: 'string', default: '' },
  },
})
const tokens = Number(values.tokens)

/** llama-perplexity's texts, and per text the log probabilities of the tokens of its second half. */
function reference(folder) {
  const docs = new URL('../docs/', import.meta.url)
  const pages = readdirSync(docs).filter((name) => name.endsWith('.md'))
  const text = pages.map((name) => readFileSync(new URL(name, docs), 'utf8')).join('\n')
  const [file, saved] = [join(folder, 'text'), join(folder, 'logits')]
  writeFileSync(file, text.replaceAll(/[|`#*[\]()_]/g, ' '))
  const size = ['-c', tokens, '-b', values.chunk, '-ub', values.chunk, '--chunks', values.texts]
  const flags = ['-m', values.model, '-f', file, ...size, '--save-all-logits', saved]
  execFileSync(values['llama-perplexity'], flags.map(String), { stdio: 'ignore' })
  return read(readFileSync(saved))
}

/** The file: a head, all tokens, then rows of a scale, the least value and 16 bits for each token. */
function read(file) {
  let at = 8
  const next = () => file.readInt32LE((at += 4) - 4)
  const [length, vocabulary, count] = [next(), next(), next()]
  const texts = Array.from({ length: count }, () => Array.from({ length }, next))
  const row = 2 * (2 * Math.floor((vocabulary + 1) / 2) + 4)
  const first = length / 2
  const logprobs = texts.map((text) =>
    text.slice(first + 1).map((token) => {
      const [scale, least] = [file.readFloatLE(at), file.readFloatLE(at + 4)]
      const logprob = least + scale * file.readUInt16LE(at + 8 + 2 * token)
      at += row
      return logprob
    }),
  )
  return { texts, logprobs, first }
}

const folder = mkdtempSync(join(tmpdir(), 'scored-'))
process.once('exit', () => rmSync(folder, { recursive: true }))
const { texts, logprobs, first } = reference(folder)
const extra = values.extra.split(' ').filter((word) => word !== '')
const context = Math.max(256, tokens + 8)
const server = await startServer('cllm', { model: values.model, slots: 4, context, extra })

const differences = []
let clipped = 0
for (const [index, text] of texts.entries()) {
  const prompt = values.bos === undefined ? text : [Number(values.bos), ...text.slice(1)]
  const response = await fetch(`${server.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, max_tokens: 0, logprobs: 1, echo: true }),
  })
  const answer = await response.json()
  if (!response.ok) throw new Error(JSON.stringify(answer))
  const scored = answer.choices[0].logprobs.token_logprobs
  for (const [nth, expected] of logprobs[index].entries()) {
    const logprob = scored[first + 1 + nth]
    // llama-perplexity cuts off 16 below the likeliest token.
    if (logprob < -15.5) clipped++
    else differences.push(Math.abs(logprob - expected))
  }
}
const mean = sum(differences) / differences.length
console.log({ tokens: differences.length, clipped, mean, most: Math.max(...differences) })
await server.stop()
process.exit(0)
