import { performance } from 'node:perf_hooks'
import { defaultSampling } from '../../packages/core/dist/index.js'
import { workSampling } from '../../packages/bench/dist/index.js'

/** Does the work by calling the backend's `step`, and nothing else. */
export async function runSteps(backend, work, prompts) {
  const sequences = prompts.map((prompt, slot) => ({
    slot,
    tokens: [...prompt],
    done: 0,
    sampler: backend.createSampler({ ...defaultSampling, ...workSampling }, prompt),
  }))
  let [decodeMs, sampleMs, steps] = [0, 0, 0]
  const began = performance.now()
  const isOver = () => sequences.every(({ tokens }) => tokens.length >= lengthOf(work))
  while (!isOver()) {
    let room = backend.limits.batchSize
    const batch = []
    const inBatch = []
    for (const sequence of sequences) {
      const { slot, tokens, done: position, sampler } = sequence
      const end = Math.min(tokens.length, position + room)
      if (tokens.length >= lengthOf(work) || end === position) continue
      room -= end - position
      const outputs = end === tokens.length ? [end - 1] : []
      batch.push({ slot, position, tokens: tokens.slice(position, end), outputs, sampler })
      inBatch.push(sequence)
    }
    const result = await backend.step(batch)
    for (const [index, sequence] of inBatch.entries()) {
      sequence.done += batch[index]?.tokens.length ?? 0
      const [output] = result.outputs[index] ?? []
      if (output !== undefined) sequence.tokens.push(output.token)
    }
    decodeMs += result.decodeMs
    sampleMs += result.sampleMs
    steps++
  }
  const wallMs = performance.now() - began
  for (const { slot, sampler } of sequences) {
    sampler.dispose()
    backend.release(slot)
  }
  return { wallMs, decodeMs, sampleMs, steps }
}

const lengthOf = ({ promptTokens, outputTokens }) => promptTokens + outputTokens
