import type { GrammarStacks, Stack } from './grammar-stacks.js'

/** Text that must come next, and what may come behind it. */
interface ForcedText {
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

const openers = '{['
const closers = '}]'
const spaces = ' \n\t\r'

/** White space, and how many brackets it is in. */
interface Gap {
  readonly text: string
  readonly depth: number
}

/**
 * Which white space a model writes into its JSON, to guess what it writes next: at each kind of place the same as
 * there before, indented by the number of open brackets.
 */
export class JsonLayout {
  readonly #gaps: Map<string, Gap>
  /** The brackets that are open. */
  #open = ''
  #isString = false
  #isEscaped = false
  /** The last character that is no white space, and what is behind it. */
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

  /** Takes in the next character of the text. */
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

  /** The white space that probably still comes before this character. */
  spaceBefore(character: string): string {
    if (this.#isString || spaces.includes(character)) return ''
    const { text, depth } = this.#gaps.get(this.#place(character)) ?? this.#like()
    const line = text.lastIndexOf('\n') + 1
    const own = this.#depth(character)
    const indent = ((text.length - line) / Math.max(1, depth)) * own
    const likely = line === 0 ? text : text.slice(0, line) + ' '.repeat(indent)
    // where a line ends for the first time, most indent by two
    const space = likely.startsWith(this.#space) ? likely : `\n${'  '.repeat(own)}`
    return space.startsWith(this.#space) ? space.slice(this.#space.length) : ''
  }

  /** Whether white space before this character would be a mere guess: nothing shows how the text is laid out. */
  isGuess(character: string): boolean {
    if (this.#isString || this.#open === '' || spaces.includes(character)) return false
    if (this.#gaps.has(this.#place(character))) return false
    return ![...this.#gaps].some(([place, { text }]) => /[:,]$/.test(place) || text.includes('\n'))
  }

  /** What is alike as far as white space is concerned. */
  #place(character: string): string {
    if (this.#open === '') return ''
    const isEnd = closers.includes(character) && !openers.includes(this.#before)
    return this.#open.at(-1)! + (isEnd ? character : this.#before)
  }

  #depth(character: string): number {
    return Math.max(0, this.#open.length - Number(closers.includes(character)))
  }

  /** As at places that are like this one, or as most models write it. */
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
