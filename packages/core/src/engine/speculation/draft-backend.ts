import type { Backend } from '../../contracts/model/backend.js'
import { CllmError } from '../../errors/cllm-error.js'

/** What `EngineOptions.speculative` is where a draft model guesses. */
export const draftModelName = 'draft'

/** The draft model of an engine, if it has one. */
export interface DraftBackend {
  readonly backend?: Backend
}

/** llama.cpp's own limit of how much two vocabularies may differ in length (`SPEC_VOCAB_MAX_SIZE_DIFFERENCE`). */
const mostExtraTokens = 128
/** Tokens whose texts are compared, evenly spread. */
const comparedTokens = 1000

/**
 * Checks that a model can guess for another one: that it takes tokens back, and that its vocabulary is
 * the same, up to a few tokens at the end.
 *
 * @throws `invalid_configuration` that says what differs
 */
export function checkDraftBackend(draft: Backend, served: Backend): void {
  const [its, own] = [draft.model, served.model]
  const fail = (reason: string) => {
    const message = `speculative: ${its.id} cannot guess for ${own.id}: ${reason}`
    throw new CllmError('invalid_configuration', message, { details: { field: 'speculative' } })
  }
  if (draft.capabilities.drafts !== true) fail('its memory cannot take back single tokens')
  const [least, most] = [its.vocabularySize, own.vocabularySize].toSorted((a, b) => a - b)
  if (most! - least! > mostExtraTokens) {
    fail(`its vocabulary has ${its.vocabularySize} tokens, expected about ${own.vocabularySize}`)
  }
  const step = Math.max(1, Math.floor(least! / comparedTokens))
  for (let token = 0; token < least!; token += step) {
    const [guessed, expected] = [textOf(draft, token), textOf(served, token)]
    if (guessed !== expected) {
      fail(`token ${token} is ${JSON.stringify(guessed)}, expected ${JSON.stringify(expected)}`)
    }
  }
}

function textOf({ tokenizer }: Backend, token: number): string {
  return tokenizer.decode([token])
}
