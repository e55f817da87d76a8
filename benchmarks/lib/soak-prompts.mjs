import { randomSource } from '../../packages/bench/dist/index.js'

const adjectives =
  'purple orange silver golden striped spotted pink grey brown wooden paper rubber magic frozen hairy'
const nouns =
  'goat duck frog horse mouse turtle lion bear monkey snail sheep fox owl hen crab snake ant wolf whale zebra robot kite drum spoon wagon boat pumpkin carrot mitten lamp'
const verbs = 'run sing dance swim jump sleep read'

/**
 * So many prompts, each with two words of its own that the model takes up: the answer to another
 * prompt must not hold them.
 */
export function soakPrompts(count, seed) {
  const random = randomSource(seed, 'soak-prompts')
  const pick = (list) => list.split(' ').at(Math.floor(random() * list.split(' ').length))
  const canaries = new Set()
  while (canaries.size < count) canaries.add(`${pick(adjectives)} ${pick(nouns)}`)
  return [...canaries].map((canary) => ({
    canary,
    text: `Once upon a time there was a ${canary}. The ${canary} liked to ${pick(verbs)}. "I am a ${canary}", said the ${canary}. "Hello, ${canary}", said the bird to the`,
    tokens: 8 + Math.floor(random() * 33),
  }))
}
