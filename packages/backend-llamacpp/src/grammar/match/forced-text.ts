import type { GrammarStacks, Stack } from './grammar-stacks.js'

/** Text that must come next, and the stacks behind it. */
interface ForcedText {
  readonly text: string
  /** Whether it could have other white space, about which the earlier text tells nothing. */
  readonly isGuess: boolean
  readonly stacks: readonly Stack[]
}

const blank = 0x20
/** With more ways to read a text, little is forced, and the cost of a character grows with their square. */
const mostReadings = 32

/**
 * The text that a grammar leaves no choice about, except for white space, which is guessed: otherwise nearly all of
 * JSON would be a choice.
 *
 * @param layout - the layout of the text before
 * @param most - stops after as many characters
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

/** The only character that may come besides white space; or else the only kind of white space. */
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

const openers = '{['
const closers = '}]'
const spaces = ' \n\t\r'

/** White space, and the number of open brackets around it. */
interface Gap {
  readonly text: string
  readonly depth: number
}

/**
 * Learns where a model writes white space in its JSON, and guesses the next one: the same as before at the same kind of
 * place, indented by the number of open brackets.
 */
export class JsonLayout {
  readonly #gaps: Map<string, Gap>
  /** The open brackets, the innermost last. */
  #open = ''
  #isString = false
  #isEscaped = false
  /** The last character that is not white space, and the white space behind it. */
  #before = ''
  #space = ''

  constructor(gaps: Iterable<readonly [string, Gap]> = []) {
    this.#gaps = new Map(gaps)
  }

  copy(): JsonLayout {
    const copy = new JsonLayout(this.#gaps)
    copy.#open = this.#open
    copy.#isString = this.#isString
    copy.#isEscaped = this.#isEscaped
    copy.#before = this.#before
    copy.#space = this.#space
    return copy
  }

  /** Reads the next character of the text. */
  read(character: string): void {
    if (this.#isString) {
      this.#isString = character !== '"' || this.#isEscaped
      this.#isEscaped = character === '\\' && !this.#isEscaped
    } else if (spaces.includes(character)) {
      this.#space += character
      return
    } else {
      this.#gaps.set(this.#place(character), { text: this.#space, depth: this.#depth(character) })
      if (openers.includes(character)) this.#open += character
      else if (closers.includes(character)) this.#open = this.#open.slice(0, -1)
      this.#isString = character === '"'
    }
    this.#before = character
    this.#space = ''
  }

  /** The rest of the white space that the model probably writes before this character. */
  spaceBefore(character: string): string {
    if (this.#isString || spaces.includes(character)) return ''
    const { text, depth } = this.#gaps.get(this.#place(character)) ?? this.#like()
    const line = text.lastIndexOf('\n') + 1
    const own = this.#depth(character)
    const indent = ((text.length - line) / Math.max(1, depth)) * own
    const likely = line === 0 ? text : text.slice(0, line) + ' '.repeat(indent)
    // at the first line break the indent is unknown: most models use two spaces
    const space = likely.startsWith(this.#space) ? likely : `\n${'  '.repeat(own)}`
    return space.startsWith(this.#space) ? space.slice(this.#space.length) : ''
  }

  /** Whether white space before this character would be a mere guess, as nothing in the text shows its layout. */
  isGuess(character: string): boolean {
    if (this.#isString || this.#open === '' || spaces.includes(character)) return false
    if (this.#gaps.has(this.#place(character))) return false
    return ![...this.#gaps].some(([place, { text }]) => /[:,]$/.test(place) || text.includes('\n'))
  }

  /** A key for the kind of place: places with the same key have the same white space. */
  #place(character: string): string {
    if (this.#open === '') return ''
    const isEnd = closers.includes(character) && !openers.includes(this.#before)
    return this.#open.at(-1)! + (isEnd ? character : this.#before)
  }

  #depth(character: string): number {
    return Math.max(0, this.#open.length - Number(closers.includes(character)))
  }

  /** The white space of a similar place, or else what most models write. */
  #like(): Gap {
    const none = { text: '', depth: 0 }
    if (this.#open === '') return none
    const seen = [...this.#gaps]
    const lined = seen.find(([place, { text }]) => place !== '' && text.includes('\n'))
    if (lined !== undefined && this.#before !== ':') return lined[1]
    if (!':,'.includes(this.#before)) return none
    const other = seen.find(([place]) => place.endsWith(':') || place.endsWith(','))
    return other?.[1] ?? { text: ' ', depth: 0 }
  }
}
