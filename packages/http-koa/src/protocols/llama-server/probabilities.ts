import type { GenerateRequest, LikelyToken, TokenLogprobs } from '@cllm/core'

const named = ({ token, text, bytes }: LikelyToken) => ({ id: token, token: text, bytes })

const byModel = (token: LikelyToken) => ({ ...named(token), logprob: token.logprob })

const byDraw = (token: LikelyToken) => ({ ...named(token), prob: Math.exp(token.logprob) })

/** How likely the tokens of an answer were, by the model or in the draw, as llama-server says it. */
export function probabilities(
  tokens: readonly TokenLogprobs[],
  { drawLogprobs }: Pick<GenerateRequest, 'drawLogprobs'>,
): object {
  if (tokens.length === 0) return {}
  return {
    completion_probabilities: tokens.map((token) =>
      drawLogprobs === undefined
        ? { ...byModel(token), top_logprobs: token.top.map(byModel) }
        : { ...byDraw(token), top_probs: token.top.map(byDraw) },
    ),
  }
}
