import { randomSource } from '../statistics/random-source.js'
import { fillerWords } from './filler-words.js'
import type { WorkItem } from './work-item.js'

/**
 * The text of an item's prompt: English words, each of which is one token in common vocabularies.
 * A segment's text is a function of seed, salt and key.
 *
 * @param salt - sets prompts of different runs apart, so that no cache of the server helps
 * @returns the text; a trailing part of a segment is cut when the segment has fewer tokens
 */
export function promptText({ prompt }: WorkItem, seed: number, salt = ''): string {
  if (typeof prompt === 'string') return prompt
  const words: string[] = []
  for (const { key, tokens } of prompt) {
    const random = randomSource(seed, salt, key)
    for (let index = 0; index < tokens; index++) {
      words.push(fillerWords[Math.floor(random() * fillerWords.length)] as string)
    }
  }
  return words.join(' ')
}
