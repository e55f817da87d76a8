// @ts-check
import { CllmError } from '@cllm/core'

/**
 * A backend without llama.cpp: it has learnt from a text which word follows which, and continues a
 * prompt accordingly. Real in every respect that the engine knows: slots, batches, prefixes, seeds.
 *
 * @param {{ text: string, slots?: number, contextSize?: number }} options
 * @returns {import('@cllm/core').Backend}
 */
export function bigramBackend({ text, slots = 4, contextSize = 512 }) {
  const tokenizer = wordTokenizer(text)
  const followers = learn(tokenizer.encode(text), tokenizer.vocabularySize)
  /** @type {number[][]} */
  const contents = Array.from({ length: slots }, () => [])
  const content = (/** @type {number} */ slot) => {
    const tokens = contents[slot]
    if (tokens === undefined) throw new CllmError('backend_failed', `There is no slot ${slot}`)
    return tokens
  }

  return {
    specificationVersion: 1,
    model: {
      id: 'bigram',
      architecture: 'bigram',
      parameters: followers.reduce((count, next) => count + next.length, 0),
      vocabularySize: tokenizer.vocabularySize,
      trainingContext: contextSize,
      quantization: 'none',
      sizeBytes: text.length,
    },
    limits: { slots, contextSize, batchSize: 256 },
    capabilities: { grammar: false, logprobs: false, embeddings: false, lora: false, gpu: false },
    tokenizer,
    createSampler: (params) => ({ params, dispose() {} }),
    async step(batch) {
      const outputs = batch.map(({ slot, position, tokens, outputs: wanted, sampler }) => {
        const held = content(slot)
        held.splice(position, Infinity, ...tokens)
        return wanted.map((at) => {
          const { params } = /** @type {{ params: import('@cllm/core').SamplingParams }} */ (
            /** @type {unknown} */ (sampler)
          )
          return { position: at, token: draw(followers[held[at] ?? 0] ?? [], params, at) }
        })
      })
      // A step that never waits would keep the process from reading its sockets.
      await new Promise((resolve) => setImmediate(resolve))
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

/**
 * Likely followers are there several times, so that a uniform draw has their frequencies.
 *
 * @param {number[]} next
 * @param {import('@cllm/core').SamplingParams} params
 * @param {number} position
 */
function draw(next, params, position) {
  if (next.length === 0) return 0
  if (params.temperature === 0) return next[0] ?? 0
  // A function of seed and position alone: a preempted request goes on with the same draws.
  const mixed = Math.imul(params.seed ^ Math.imul(position + 1, 0x9e3779b1), 0x85ebca6b) >>> 0
  return next[mixed % next.length] ?? 0
}

/**
 * @param {number[]} tokens
 * @param {number} size
 */
function learn(tokens, size) {
  /** @type {number[][]} */
  const followers = Array.from({ length: size }, () => [])
  tokens.forEach((token, index) => followers[token]?.push(tokens[index + 1] ?? 0))
  return followers
}

/**
 * Words with what stands before them; token 0 is the end, and stands for unknown words.
 *
 * @param {string} text
 * @returns {import('@cllm/core').Tokenizer}
 */
function wordTokenizer(text) {
  const split = (/** @type {string} */ given) => given.match(/\s*\S+|\s+$/g) ?? []
  const words = ['', ...new Set(split(text))]
  const ids = new Map(words.map((word, id) => [word, id]))
  /** @type {import('@cllm/core').Tokenizer['encode']} */
  const encode = (given) => split(given).map((word) => ids.get(word) ?? ids.get(` ${word}`) ?? 0)
  /** @type {import('@cllm/core').Tokenizer['decode']} */
  const decode = (tokens) => tokens.map(spell).join('')
  const spell = (/** @type {number} */ token) => {
    const word = words[token]
    if (word === undefined) throw new CllmError('invalid_token', `There is no token ${token}`)
    return word
  }
  return {
    vocabularySize: words.length,
    maxTokenBytes: Math.max(...words.map((word) => Buffer.byteLength(word))),
    encode,
    decode,
    createDecoder: () => ({ push: spell, end: () => '' }),
    isEndOfGeneration: (token) => token === 0,
    renderChat(messages) {
      const rendered = messages.map(({ content }) => content).join('\n')
      return { text: rendered, tokens: encode(rendered) }
    },
  }
}
