import { type BatchItem, type StepOutput, type TokenId, extendHash } from '@cllm/core'
import { saltOf } from './fake-adapters.js'
import { type FakeModel, salted } from './fake-model.js'
import { FakeSampler } from './fake-sampler.js'
import type { FakeSlot } from './fake-slot.js'

/** Puts an item's tokens into its slot and draws what is wanted, up to the first wrong draft. */
export function computeItem(item: BatchItem, content: FakeSlot, model: FakeModel): StepOutput[] {
  const { position, tokens, outputs, drafts = 0, discarded = 0, sampler } = item
  // its draws are the likeliest tokens
  const count = item.logprobs ?? item.drawLogprobs
  content.append(tokens)
  content.salt = saltOf(item.adapters)
  if (!(sampler instanceof FakeSampler)) return []
  const drawn: StepOutput[] = []
  for (const output of outputs) {
    const before = tokensBefore(content.tokens, output + 1, discarded)
    const hash = content.hashAt(output + 1)
    const token = model.next(before, salted(hash, content.salt), sampler.params)
    sampler.history = extendHash(hash, token)
    const logprobs =
      count === undefined ? {} : { logprobs: model.logprobs(before, hash, token, count) }
    drawn.push({ position: output, token, ...logprobs })
    if (drafts > 0 && token !== tokens[output + 1 - position]) break
  }
  return drawn
}

/** The first `length` tokens, behind what was discarded: draws count positions from the very first. */
function tokensBefore(
  tokens: readonly TokenId[],
  length: number,
  discarded: number,
): readonly TokenId[] {
  // a copy for each token would be slow
  if (discarded === 0 && length === tokens.length) return tokens
  return [...Array.from({ length: discarded }, () => 0), ...tokens.slice(0, length)]
}
