import type { LikelyToken, PromptTokenLogprobs, TokenLogprobs } from '@cllm/core'

/** The probability of a token by itself. */
export const logprobOf = ({ text: token, bytes, logprob }: LikelyToken) => ({
  token,
  logprob,
  bytes,
})

/** The probability of a token as a response has it. */
export const responseLogprob = (token: TokenLogprobs): object => ({
  ...logprobOf(token),
  top_logprobs: token.top.map(logprobOf),
})

/** Probabilities as a chat has them. */
export const chatLogprobs = (tokens: readonly TokenLogprobs[]): object => ({
  content: tokens.map(responseLogprob),
  refusal: null,
})

/**
 * Probabilities as a text completion has them.
 *
 * @param offset - characters of the answer before the first of the tokens
 */
export function textLogprobs(tokens: readonly PromptTokenLogprobs[], offset: number): object {
  let at = offset
  const text_offset = tokens.map(({ text }) => {
    const here = at
    at += text.length
    return here
  })
  return {
    tokens: tokens.map(({ text }) => text),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ top, logprob }) =>
      logprob === null
        ? null
        : // of two tokens with the same text the likelier one counts
          Object.fromEntries(top.toReversed().map(({ text, logprob }) => [text, logprob])),
    ),
    text_offset,
  }
}
