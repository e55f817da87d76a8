import type { OutputLogprobs, TokenId, TokenLogprob } from '@cllm/core'
import type { SamplerWorkspace } from './sampler-workspace.js'

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
  scan.load(logits)
  candidates.begin()
  const { largest } = candidates
  const logOfAll = largest + Math.log(scan.weigh(largest - negligible, 1, largest))
  const own = Math.min(0, logits[token]! - logOfAll)
  if (count === 0) return { logprob: own, top: [] }
  candidates.keepTop(count)
  const top: TokenLogprob[] = []
  for (let index = 0; index < candidates.size; index++) {
    const logprob = Math.min(0, candidates.logits[index]! - logOfAll)
    top.push({ token: candidates.ids[index]!, logprob })
  }
  return { logprob: own, top }
}
