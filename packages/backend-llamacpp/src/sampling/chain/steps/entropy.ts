import type { Candidates } from '../candidates/candidates.js'

/** The entropy of the candidates' probabilities in nats; these must be in their weights. */
export function entropyOf({ weights, size }: Candidates): number {
  let entropy = 0
  for (let index = 0; index < size; index++) {
    const probability = weights[index]!
    if (probability > 0) {
      const surprise = Math.fround(Math.log(probability))
      entropy = Math.fround(entropy - Math.fround(probability * surprise))
    }
  }
  return entropy
}
