import type { Backend, OutputLogprobs } from '../../contracts/model/backend.js'
import type { LikelyToken, PromptLogprobs, TokenLogprobs } from '../../contracts/engine/logprobs.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'
import { checkNumber } from '../input/check-fields.js'
import type { Sequence } from '../requests/sequence.js'

/** Most of the likeliest tokens that can be asked for, as with OpenAI. */
const mostLogprobs = 20

/** What is said where the backend lacks the capability of the field's name. */
const missing = {
  logprobs: 'does not give probabilities',
  drawLogprobs: 'does not give the probabilities of a draw',
  promptLogprobs: 'does not give the probabilities of a prompt',
} as const

/** Throws `invalid_request`, or `unsupported` where the backend gives no such probabilities. */
export function checkLogprobs(
  request: Readonly<Partial<Record<keyof typeof missing, number>>>,
  { capabilities }: Pick<Backend, 'capabilities'>,
): void {
  for (const field of ['logprobs', 'drawLogprobs', 'promptLogprobs'] as const) {
    const count = request[field]
    if (count === undefined) continue
    checkNumber(field, count, { min: 0, max: mostLogprobs, integer: true })
    if (capabilities[field] === true) continue
    throw new CllmError('unsupported', `${field}: this backend ${missing[field]}`, {
      details: { field, capability: field },
    })
  }
}

/** The log probabilities of a prompt's tokens for the client, when they were asked for. */
export function describePrompt(sequence: Sequence): PromptLogprobs | undefined {
  const { request, tokens, promptTokens, promptLogprobs } = sequence
  if (request.promptLogprobs === undefined || sequence.emittedTokens > 0) return undefined
  const first = request.describe(tokens[0]!, { logprob: 0, top: [] })
  const known = promptLogprobs
    .slice(0, promptTokens - 1)
    .map((logprobs, index) => request.describe(tokens[index + 1]!, logprobs))
  return [{ ...first, logprob: null }, ...known]
}

/** Log probabilities for the client: with the texts of the tokens. */
export function describeLogprobs(
  tokenizer: Tokenizer,
  token: TokenId,
  { logprob, top }: OutputLogprobs,
): TokenLogprobs {
  const describe = (token: TokenId, logprob: number): LikelyToken => {
    const bytes = tokenizer.bytesOf?.(token) ?? new TextEncoder().encode(tokenizer.decode([token]))
    return { token, text: new TextDecoder().decode(bytes), bytes: [...bytes], logprob }
  }
  return {
    ...describe(token, logprob),
    top: top.map((other) => describe(other.token, other.logprob)),
  }
}
