import type { BatchItem, StepOutput } from '../../contracts/model/backend.js'
import { extendHash } from '../../hash.js'
import { saltOf } from './fake-adapters.js'
import { type FakeModel, salted } from './fake-model.js'
import { FakeSampler } from './fake-sampler.js'
import type { FakeSlot } from './fake-slot.js'

/** Puts an item's tokens into its slot and draws what is wanted, up to the first wrong draft. */
export function computeItem(item: BatchItem, content: FakeSlot, model: FakeModel): StepOutput[] {
  const { position, tokens, outputs, drafts = 0, sampler } = item
  // its draws are the likeliest tokens
  const count = item.logprobs ?? item.drawLogprobs
  // Draws count positions from the first token that there ever was.
  const gone = Array.from({ length: item.discarded ?? 0 }, () => 0)
  content.append(tokens)
  content.salt = saltOf(item.adapters)
  if (!(sampler instanceof FakeSampler)) return []
  const drawn: StepOutput[] = []
  for (const output of outputs) {
    const before = [...gone, ...content.tokens.slice(0, output + 1)]
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
