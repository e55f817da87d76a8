import { type BackendLimits, type BatchItem, type Sampler, hashTokens } from '@cllm/core'
import type { FakeSlot } from './fake-slot.js'
import { FakeSampler } from './fake-sampler.js'

/** What {@link checkBatch} checks against. */
export interface CheckContext {
  readonly limits: BackendLimits
  readonly vocabularySize: number
  readonly slots: readonly FakeSlot[]
  readonly samplers: ReadonlySet<Sampler>
  /** How many more tokens all slots can hold together. */
  readonly freeTokens: number
}

/** Says what is wrong with a batch, or undefined: as strict as llama.cpp and the contract allow. */
export function checkBatch(batch: readonly BatchItem[], context: CheckContext): string | undefined {
  if (batch.length === 0) return 'the batch is empty'
  const { batchSize } = context.limits
  const size = batch.reduce((sum, { tokens }) => sum + tokens.length, 0)
  if (size > batchSize) return `the batch has ${size} tokens, batchSize is ${batchSize}`
  const { freeTokens } = context
  if (size > freeTokens) return `the batch has ${size} tokens, there are ${freeTokens} free cells`
  const slots = new Set(batch.map(({ slot }) => slot))
  if (slots.size < batch.length) return 'a slot is in the batch twice'
  const samplers = batch.flatMap(({ sampler }) => sampler ?? [])
  if (new Set(samplers).size < samplers.length) return 'a sampler is in the batch twice'
  for (const [index, item] of batch.entries()) {
    const problem = checkItem(item, context)
    if (problem !== undefined) return `item ${index} (slot ${item.slot}): ${problem}`
  }
  return undefined
}

function checkItem(item: BatchItem, context: CheckContext): string | undefined {
  const { slot, position, tokens, outputs } = item
  const content = context.slots[slot]
  if (content === undefined) return `there are ${context.limits.slots} slots`
  if (tokens.length === 0) return 'it has no tokens'
  const held = content.tokens.length
  if (position !== held) {
    const kind = position > held ? 'gap' : 'overlap'
    return `${kind}: position ${position}, the slot holds ${held} tokens`
  }
  const end = position + tokens.length
  const { contextSize } = context.limits
  if (end > contextSize) return `context overflow: ${end} tokens, contextSize is ${contextSize}`
  const wrong = vectorProblem(item, context)
  if (wrong !== undefined) return wrong
  for (const [index, output] of outputs.entries()) {
    if (!Number.isInteger(output) || output < position || output >= end) {
      return `output ${output} is outside its positions ${position} to ${end - 1}`
    }
    if (output <= (outputs[index - 1] ?? -1)) return `outputs do not rise: ${outputs.join(', ')}`
  }
  const problem = checkScores(item, context)
  if (problem !== undefined || outputs.length === 0) return problem
  return checkSampler(item, content, context)
}

/** Whether each token is one of the vocabulary, or has a vector in its place. */
function vectorProblem({ tokens, media = [] }: BatchItem, { vocabularySize }: CheckContext) {
  const places = new Set<number>()
  for (const { start, length, vectors } of media) {
    if (vectors.length % length !== 0) return `${vectors.length} numbers for ${length} vectors`
    for (let at = start; at < start + length; at++) places.add(at)
  }
  const bad = tokens.find((token, at) => {
    const isText = Number.isInteger(token) && token >= 0 && token < vocabularySize
    return isText === places.has(at)
  })
  return bad === undefined ? undefined : `token ${bad} is outside the vocabulary`
}

function checkScores({ position, tokens, scores }: BatchItem, { vocabularySize }: CheckContext) {
  if (scores === undefined) return undefined
  const { position: from, tokens: scored } = scores
  const end = position + tokens.length
  if (scored.length === 0 || from < position || from + scored.length > end) {
    return `${scored.length} scores from ${from} on are outside its positions ${position} to ${end - 1}`
  }
  const bad = scored.find((token) => !(token >= 0 && token < vocabularySize))
  if (bad !== undefined) return `scored token ${bad} is outside the vocabulary`
  const wrong = scored.findIndex((token, index) => {
    const next = tokens[from + index + 1 - position]
    return next !== undefined && next !== token
  })
  return wrong < 0 ? undefined : `scored token ${scored[wrong]} is not what follows in the item`
}

function checkSampler(
  { sampler, position, tokens, outputs, drafts = 0 }: BatchItem,
  content: FakeSlot,
  { samplers }: CheckContext,
): string | undefined {
  if (drafts > 0 && outputs.join() !== draftOutputs(position + tokens.length, drafts)) {
    return `with ${drafts} drafts, outputs are wanted before and at each: ${outputs.join(', ')}`
  }
  if (sampler === undefined) return 'it has outputs and no sampler'
  if (!(sampler instanceof FakeSampler)) return 'its sampler is not of this backend'
  if (sampler.disposed) return 'its sampler is disposed'
  if (!samplers.has(sampler)) return 'its sampler is not of this backend'
  const [output = 0, ...more] = outputs
  if (more.length > 0 && drafts === 0) return undefined // what of it is taken is known later
  const sampled = hashTokens(content.hashAt(position), tokens.slice(0, output - position + 1))
  return sampler.history === sampled
    ? undefined
    : 'its sampler was made with, or drew, other tokens than the slot now holds'
}

const draftOutputs = (end: number, drafts: number): string =>
  Array.from({ length: drafts + 1 }, (_, nth) => end - 1 - drafts + nth).join()
