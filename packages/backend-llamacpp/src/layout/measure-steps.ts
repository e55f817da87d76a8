import { type BatchItem, type Clock, defaultSampling, type SlotId, type TokenId } from '@cllm/core'
import type { LlamaCppBackend } from '../llamacpp-backend.js'
import type { StepShape } from './step-shape.js'

/** Timed steps of each shape; one goes before, in which llama.cpp makes room for it. */
const rounds = 3
/** Any token takes as long as any other. */
const token: TokenId = 0

/**
 * Measures what steps take on a backend whose slots are empty, which they are again afterwards. All slots
 * but the last hold tokens meanwhile, as they do under load; the last one is for prompts.
 *
 * @returns milliseconds for each shape
 */
export async function measureSteps(
  backend: LlamaCppBackend,
  shapes: readonly StepShape[],
  clock: Clock,
): Promise<readonly number[]> {
  const { slots, contextSize, batchSize, chunkMultiple } = backend.limits
  const promptSlot = slots - 1
  const sampler = backend.createSampler({ ...defaultSampling, seed: 1 }, [])
  const some = (count: number): TokenId[] => Array.from({ length: count }, () => token)

  /** The batches of a step: where prompts have a best length they are computed apart. */
  const batchesOf = (shape: StepShape, position: number): BatchItem[][] => {
    const sequences = Math.min(shape.sequences, promptSlot)
    const chunk = Math.min(shape.chunk, batchSize - sequences, contextSize)
    const decodes = Array.from({ length: sequences }, (_, slot): BatchItem => ({
      slot,
      position,
      tokens: [token],
      outputs: [position],
      sampler,
    }))
    const prompt = { slot: promptSlot, position: 0, tokens: some(chunk), outputs: [] }
    const batches = chunkMultiple === undefined ? [[...decodes, prompt]] : [decodes, [prompt]]
    const filled = batches.map((batch) => batch.filter(({ tokens }) => tokens.length > 0))
    return filled.filter(({ length }) => length > 0)
  }

  /** Gives all slots but the last as many tokens, each in cells of its own. */
  const fill = async (from: number, to: number): Promise<void> => {
    for (let position = from; position < to; position += batchSize) {
      const tokens = some(Math.min(batchSize, to - position))
      await backend.forward([{ slot: 0, position, tokens, outputs: [] }])
    }
    const state = await backend.states?.save(0)
    if (state === undefined) throw new Error('the state of a slot could not be had')
    const copy = Uint8Array.from(state)
    for (let slot: SlotId = 1; slot < promptSlot; slot++) {
      if (await backend.states!.restore(slot, copy, { tokens: to })) continue
      throw new Error('the state of a slot could not be restored')
    }
  }

  const times = new Map<StepShape, number>()
  let filled = 0
  for (const shape of shapes.toSorted((a, b) => a.context - b.context)) {
    const context = Math.min(shape.context, contextSize - 1)
    if (context > filled) await fill(filled, context)
    filled = context
    const batches = batchesOf(shape, context)
    const taken: number[] = []
    for (let round = 0; round <= rounds; round++) {
      const began = clock.now()
      for (const batch of batches) await backend.forward(batch)
      if (round > 0) taken.push(clock.now() - began)
      for (const { slot, position } of batches.flat()) backend.truncate(slot, position)
    }
    times.set(shape, taken.sort((a, b) => a - b)[Math.floor(rounds / 2)]!)
  }
  for (let slot: SlotId = 0; slot < slots; slot++) backend.release(slot)
  sampler.dispose()
  return shapes.map((shape) => times.get(shape)!)
}
