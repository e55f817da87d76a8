// @ts-check

/**
 * Draws a token the usual way: bias, penalties, top_k, top_p, min_p, temperature. The random number
 * is a function of seed and position alone, so a request that is preempted goes on with the same
 * draws.
 *
 * @param {Float64Array} logits changed on the way
 * @param {import('@cllm/core').SamplingParams} params
 * @param {readonly number[]} history the tokens so far, for the penalties
 * @param {number} end the token that ends a text
 * @param {number} position
 */
export function draw(logits, params, history, end, position) {
  for (const [token, bias] of params.logitBias) logits[token] = (logits[token] ?? 0) + bias
  if (params.ignoreEos) logits[end] = -Infinity
  penalize(logits, params, history.slice(Math.max(0, history.length - params.penaltyLastN)))

  const byLogit = [...logits.keys()].sort((a, b) => (logits[b] ?? 0) - (logits[a] ?? 0))
  const best = byLogit[0] ?? end
  if (params.temperature === 0) return best
  const kept = cut(byLogit, logits, params)
  const highest = logits[best] ?? 0
  const weights = kept.map((token) =>
    Math.exp(((logits[token] ?? 0) - highest) / params.temperature),
  )
  let rest = uniform(params.seed, position) * weights.reduce((sum, weight) => sum + weight, 0)
  const index = weights.findIndex((weight) => (rest -= weight) < 0)
  return kept[index] ?? best
}

/** @type {(logits: Float64Array, params: import('@cllm/core').SamplingParams, history: readonly number[]) => void} */
function penalize(logits, { repetitionPenalty, presencePenalty, frequencyPenalty }, history) {
  for (const token of new Set(history)) {
    const count = history.filter((seen) => seen === token).length
    const logit = logits[token] ?? 0
    const divided = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty
    logits[token] = divided - presencePenalty - count * frequencyPenalty
  }
}

/** @type {(tokens: number[], logits: Float64Array, params: import('@cllm/core').SamplingParams) => number[]} */
function cut(tokens, logits, { topK, topP, minP }) {
  const few = topK > 0 ? tokens.slice(0, topK) : tokens
  const highest = logits[few[0] ?? 0] ?? 0
  const weights = few.map((token) => Math.exp((logits[token] ?? 0) - highest))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  let before = 0
  return few.filter((_, index) => {
    const weight = weights[index] ?? 0
    const isKept = index === 0 || (before < topP * total && weight >= minP)
    before += weight
    return isKept
  })
}

/** From 0 to 1, not including 1. */
function uniform(/** @type {number} */ seed, /** @type {number} */ position) {
  let mixed = seed ^ Math.imul(position + 1, 0x9e3779b1)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32
}
