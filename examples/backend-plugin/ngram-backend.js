// @ts-check
import { setImmediate } from 'node:timers/promises'
import { CllmError } from '@cllm/core'
import { byteTokenizer } from './byte-tokenizer.js'
import { draw } from './draw.js'

const end = 256
const vocabularySize = byteTokenizer.vocabularySize

/**
 * A backend without llama.cpp: it has learnt from a text which byte follows the last few, and
 * continues prompts accordingly. All that an engine asks for is real: slots, batches, prefixes, seeds.
 *
 * @param {object} options
 * @param {string} options.text what it learns from
 * @param {string} [options.id] what clients call it; default `ngram`
 * @param {number} [options.order] bytes that a prediction depends on; default 5
 * @param {number} [options.slots] default 4
 * @param {number} [options.contextSize] tokens per slot; default 512
 * @param {number} [options.batchSize] tokens per step; default 256
 * @returns {import('@cllm/core').Backend}
 */
export function ngramBackend({
  text,
  id = 'ngram',
  order = 5,
  slots = 4,
  contextSize = 512,
  batchSize = 256,
}) {
  const counts = learn([...byteTokenizer.encode(text), end], order)
  /** @type {number[][]} */
  const contents = Array.from({ length: slots }, () => [])
  const content = (/** @type {number} */ slot) => {
    const tokens = contents[slot]
    if (tokens === undefined) throw new CllmError('backend_failed', `There is no slot ${slot}`)
    return tokens
  }
  const check = (/** @type {import('@cllm/core').BatchItem} */ { slot, position, tokens }) => {
    const held = content(slot).length
    if (position !== held || held + tokens.length > contextSize) {
      const what = `slot ${slot} holds ${held} of ${contextSize} tokens`
      throw new CllmError('backend_failed', `${what}, ${tokens.length} at ${position} do not fit`)
    }
  }

  return {
    specificationVersion: 1,
    model: {
      id,
      architecture: 'ngram',
      parameters: counts.size,
      vocabularySize,
      trainingContext: contextSize,
      quantization: 'none',
      sizeBytes: Buffer.byteLength(text),
    },
    limits: { slots, contextSize, batchSize },
    capabilities: { logprobs: false, gpu: false },
    tokenizer: byteTokenizer,
    createSampler: (params) => new NgramSampler(params),
    async step(batch) {
      batch.forEach(check)
      // A step that never waits would keep the process from reading its sockets.
      await setImmediate()
      const outputs = batch.map(({ slot, tokens, outputs: wanted, sampler }) => {
        const held = content(slot)
        held.push(...tokens)
        if (!(sampler instanceof NgramSampler)) return []
        return wanted.map((position) => {
          const history = held.slice(0, position + 1)
          const logits = predict(counts, history.slice(-order))
          return { position, token: draw(logits, sampler.params, history, end, position) }
        })
      })
      return { outputs, decodeMs: 0, sampleMs: 0 }
    },
    truncate: (slot, length) => (content(slot).length = Math.min(length, content(slot).length)),
    async copyPrefix(from, to, length) {
      contents[to] = content(from).slice(0, length)
      return content(to).length
    },
    release: (slot) => void (content(slot).length = 0),
    preferSlot: (free) => free[0] ?? 0,
    async dispose() {},
  }
}

class NgramSampler {
  constructor(/** @type {import('@cllm/core').SamplingParams} */ params) {
    this.params = params
  }

  dispose() {}
}

/**
 * How often which byte follows which last bytes, for 0 to `order` of them.
 *
 * @param {readonly number[]} tokens
 * @param {number} order
 */
function learn(tokens, order) {
  /** @type {Map<string, Float64Array>} */
  const counts = new Map()
  tokens.forEach((token, index) => {
    for (let length = 0; length <= Math.min(order, index); length++) {
      const context = tokens.slice(index - length, index).join()
      const row = counts.get(context) ?? new Float64Array(vocabularySize)
      row[token] = (row[token] ?? 0) + 1
      counts.set(context, row)
    }
  })
  return counts
}

/**
 * Longer contexts count for more; every byte is possible.
 *
 * @param {ReadonlyMap<string, Float64Array>} counts
 * @param {readonly number[]} context
 */
function predict(counts, context) {
  const weights = new Float64Array(vocabularySize).fill(1e-4)
  for (let length = 0; length <= context.length; length++) {
    const row = counts.get(context.slice(context.length - length).join())
    row?.forEach((count, token) => (weights[token] = (weights[token] ?? 0) + count * 8 ** length))
  }
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => Math.log(weight / total))
}
