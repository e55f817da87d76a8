import type { Candidates } from './candidates.js'

/**
 * Computes the probabilities of the listed candidates in single precision and in their order, so that
 * sums round as llama.cpp's do.
 * @returns what the weights are divided by
 */
export function softmax(candidates: Candidates): number {
  const { logits, probabilities, size, largest } = candidates
  let total = 0
  for (let index = 0; index < size; index++) {
    const weight = Math.fround(Math.exp(Math.fround(logits[index]! - largest)))
    probabilities[index] = weight
    total = Math.fround(total + weight)
  }
  for (let index = 0; index < size; index++) probabilities[index] = probabilities[index]! / total
  return total
}
