import { randomSource } from '../statistics/random.js'
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
  const draw = () => fillerWords[Math.floor(random() * fillerWords.length)]!
  return Array.from({ length: count }, draw)
}

/** Common English words: each is one token, with a space before it, in common vocabularies. */
export const fillerWords: readonly string[] = `
time year people way day man thing woman life child world school state family student
group country problem hand part place case week company system program question work government
number night point home water room mother area money story fact month lot right study book eye job
word business issue side kind head house service friend father power hour game line end member law
car city community name president team minute idea body information back parent face others level
office door health person art war history party result change morning reason research girl guy
moment air teacher force education run small large open quiet early young important public bad same
able green river mountain letter bridge garden winter summer engine paper music market doctor stone
make find give tell work call try ask need feel become leave put mean keep let begin seem help talk
turn start show hear play move like live believe hold bring happen write provide sit stand lose pay
meet include continue set learn lead understand watch follow stop create speak read allow add spend
grow walk win offer remember love consider appear buy wait serve die send expect build stay fall
because although while under over between through during before after without against toward
`
  .split(/\s+/)
  .filter((word) => word !== '')
