import type { OutputLogprobs, TokenId, TokenLogprob } from '@cllm/core'
import type { Candidates } from './candidates/candidates.js'
import type { SamplerWorkspace } from './sampling-chain.js'

/** Tokens this much less likely than the likeliest add nothing that a logarithm of the sum shows. */
const negligible = 26

/**
 * How likely tokens are by the model's own distribution.
 * @param logits - as the model gave them
 * @param token - the one that was drawn
 * @param count - how many of the likeliest tokens are listed as well
 */
export function rawLogprobs(
  { scan, candidates }: SamplerWorkspace,
  logits: Float32Array,
  token: TokenId,
  count: number,
): OutputLogprobs {
  scan.logits.set(logits)
  candidates.begin()
  const { largest } = candidates
  const logOfAll = largest + Math.log(scan.weigh(largest - negligible, 1, largest))
  const logprobOf = (logit: number): number => Math.min(0, logit - logOfAll)
  return { logprob: logprobOf(logits[token]!), top: topOf(candidates, count, logprobOf) }
}

/** The likeliest tokens. */
function topOf(
  candidates: Candidates,
  count: number,
  logprobOf: (logit: number) => number,
): TokenLogprob[] {
  if (count === 0) return []
  candidates.keepTop(count)
  const top: TokenLogprob[] = []
  for (let index = 0; index < candidates.size; index++) {
    top.push({ token: candidates.ids[index]!, logprob: logprobOf(candidates.logits[index]!) })
  }
  return top
}

/** A draw from these alone leaves nothing to chance. */
const certain = (token: TokenId): OutputLogprobs => ({
  logprob: 0,
  top: [{ token, logprob: 0 }],
})

/** The least logarithm of a probability that counts: llama.cpp's single precision has none below. */
const least = -87

/**
 * How likely tokens were in the last draw: after all of its steps, at its temperature. Changes what
 * candidates there are.
 * @param temperature - of that draw
 * @param token - the one that was drawn
 * @param count - how many of the likeliest tokens are listed as well
 */
export function drawnLogprobs(
  { scan, candidates }: SamplerWorkspace,
  temperature: number,
  token: TokenId,
  count: number,
): OutputLogprobs {
  const { largest } = candidates
  const shift = Math.fround(largest / temperature)
  if (!Number.isFinite(shift)) return certain(token)
  const own = scan.logits[token]!
  const total = candidates.isWhole
    ? scan.weigh(largest + least * temperature, temperature, shift)
    : scan.weighListed(candidates.size, temperature, shift)
  const logprobOf = (logit: number): number =>
    Math.min(0, (logit - largest) / temperature - Math.log(total))
  const top = topOf(candidates, count, logprobOf).filter(({ logprob }) => logprob > least)
  return { logprob: Math.max(least, logprobOf(own)), top }
}
