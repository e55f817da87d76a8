import { randomSource } from '../statistics/random-source.js'
import { fillerWords } from './filler-words.js'
import type { WorkItem } from './work-item.js'

/** Words that set the first block of a text apart from that of another run. */
const saltWords = 3

/**
 * The text of an item's prompt: English words, each of which is one token in common vocabularies.
 * A segment's text is a function of seed, salt and key. A prompt that is a text is kept, behind a few words with a salt.
 *
 * @param salt - sets prompts of different runs apart, so that no cache of the server helps
 * @returns the text; a trailing part of a segment is cut when the segment has fewer tokens
 */
export function promptText({ prompt }: WorkItem, seed: number, salt = ''): string {
  if (typeof prompt === 'string') {
    return salt === ''
      ? prompt
      : `${words(saltWords, randomSource(seed, salt)).join(' ')}\n${prompt}`
  }
  return prompt.flatMap(({ key, tokens }) => words(tokens, randomSource(seed, salt, key))).join(' ')
}

function words(count: number, random: () => number): string[] {
  return Array.from(
    { length: count },
    () => fillerWords[Math.floor(random() * fillerWords.length)] as string,
  )
}
