import { complete } from './completion.mjs'

/** Answers to differ from the undisturbed ones only where two tokens are as likely, in log units. */
const nearlyTied = 0.2

/** What is wrong with an answer, by the undisturbed one; an empty list for nothing. */
export function findFaults(answer, prompt, canaries) {
  const faults = []
  if (!answer.left && !answer.ended) faults.push('lost')
  // Every event says how many tokens there are until then.
  if (answer.counts.some(([come, told]) => come !== told)) faults.push('miscounted')
  const foreign = canaries.filter((canary) => !prompt.expected.text.includes(canary))
  const isForeign = (canary) => canary !== prompt.canary && answer.text.includes(canary)
  if (foreign.some(isForeign)) faults.push('cross-talk')
  return faults
}

/** Where an answer leaves the undisturbed one; undefined when it does not. */
export function divergence(answer, prompt) {
  const { tokens } = prompt.expected
  const at = answer.tokens.findIndex((token, index) => token !== tokens[index])
  if (at >= 0) return at
  return answer.left || answer.tokens.length === tokens.length ? undefined : answer.tokens.length
}

/**
 * Whether two answers part at tokens that the model finds nearly as likely: sums depend on what else
 * is in a batch and on where a prefix was computed, in their last bits. A token that is missing or
 * comes twice is no such place.
 */
export async function isNearTie(url, prompt, answer, at) {
  const [ours, expected] = [answer.tokens[at], prompt.expected.tokens[at]]
  const tokens = [...prompt.promptTokens, ...answer.tokens.slice(0, at)]
  const body = { prompt: tokens, n_predict: 1, n_probs: 10, cache_prompt: false }
  const { probabilities } = await complete(url, { body })
  const top = probabilities?.[0]?.top_logprobs ?? []
  const [a, b] = [ours, expected].map((token) => top.find(({ id }) => id === token)?.logprob)
  return Math.abs(a - b) < nearlyTied
}
