import type { GrammarStacks, Stack } from './grammar-stacks.js'
import type { JsonLayout } from './json-layout.js'

/** Text that must come next, and what may come behind it. */
export interface ForcedText {
  readonly text: string
  /** Whether there may be other white space in it, of which the text before tells nothing. */
  readonly isGuess: boolean
  readonly stacks: readonly Stack[]
}

const blank = 0x20
/** Where a text is read in more ways, little is forced, and each character costs the square of them. */
const mostReadings = 32

/**
 * The text that a grammar leaves no choice about but for white space, which is guessed: otherwise nearly all of
 * JSON would be a choice.
 *
 * @param layout - of the text before
 * @param most - characters after which no more is looked for
 */
export function forcedText(
  graph: GrammarStacks,
  stacks: readonly Stack[],
  layout: JsonLayout,
  most: number,
): ForcedText {
  const guessed = layout.copy()
  let [text, isGuess] = ['', false]
  const take = (character: string): boolean => {
    const behind = graph.after(stacks, character.codePointAt(0)!)
    if (behind.length === 0) return false
    stacks = behind
    text += character
    guessed.read(character)
    return true
  }
  while (text.length < most && stacks.length <= mostReadings) {
    const character = onlyCharacter(graph, stacks)
    if (character === undefined) break
    isGuess ||= guessed.isGuess(character) && graph.after(stacks, blank).length > 0
    for (const space of guessed.spaceBefore(character)) if (!take(space)) break
    if (!take(character)) break
  }
  return { text, stacks, isGuess }
}

/** The only character that may come, white space aside. */
function onlyCharacter(graph: GrammarStacks, stacks: readonly Stack[]): string | undefined {
  let only: string | undefined
  let space: string | undefined
  let hasSpaces = false
  for (const stack of stacks) {
    const characters = graph.characters(stack)
    // an end, or a token that the grammar names
    if (characters.length === 0) return undefined
    for (const [low, high] of characters) {
      for (let code = low; code <= high; code++) {
        const character = String.fromCodePoint(code)
        if (' \n\t\r'.includes(character)) {
          hasSpaces ||= space !== undefined && space !== character
          space = character
        } else if (only !== undefined && only !== character) return undefined
        else only = character
      }
    }
  }
  return only ?? (hasSpaces ? undefined : space)
}
