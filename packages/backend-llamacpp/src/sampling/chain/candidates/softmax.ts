import type { Candidates } from './candidates.js'

/**
 * Computes the probabilities of the listed candidates into their weights. In single precision and in
 * the order of the list, so that the sum rounds as llama.cpp's does.
 * @returns the sum that the weights were divided by
 */
export function softmax(candidates: Candidates): number {
  const { scan, weights, size, largest } = candidates
  scan.weighListed(size, 1, largest)
  let total = 0
  for (let index = 0; index < size; index++) total = Math.fround(total + weights[index]!)
  for (let index = 0; index < size; index++) weights[index] = weights[index]! / total
  return total
}
