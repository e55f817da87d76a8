/** What a piece of text brought a call whose arguments come. */
export interface CallProgress {
  /** More of the arguments, as JSON. */
  readonly text: string
  /** What follows the call, once it is over. */
  readonly rest?: string
}

/** Reads the arguments of one call in pieces. */
export interface CallReader {
  push(piece: string): CallProgress
  /** The last piece when the answer is over. */
  end(): CallProgress
  /** Whether it was read to its end. */
  readonly isWhole: boolean
}

/** Arguments that are a JSON object; inside another one, that is read to its end too. */
export class JsonArguments implements CallReader {
  readonly #arguments = new JsonScanner()
  readonly #around: JsonScanner | undefined
  #isOver = false
  isWhole = false

  /** @param before - of an object around the arguments, what comes before them */
  constructor(before?: string) {
    if (before === undefined) return
    this.#around = new JsonScanner()
    this.#around.push(before)
  }

  push(piece: string): CallProgress {
    if (this.#isOver) return this.#close(piece, '')
    const end = this.#arguments.push(piece)
    const text = piece.slice(0, end ?? piece.length)
    this.#around?.push(text)
    if (end === undefined) return { text }
    this.#isOver = true
    return this.#close(piece.slice(end), text)
  }

  end(): CallProgress {
    return { text: '', rest: '' }
  }

  #close(piece: string, text: string): CallProgress {
    const end = this.#around === undefined ? 0 : this.#around.push(piece)
    if (end === undefined) return { text }
    this.isWhole = true
    return { text, rest: piece.slice(end) }
  }
}

/** Finds the end of a JSON object or array that comes in pieces, beginning with its bracket. */
export class JsonScanner {
  #depth = 0
  #inString = false
  #escaped = false

  /** Where it ends in this piece, or undefined while it goes on. */
  push(text: string): number | undefined {
    for (let index = 0; index < text.length; index++) {
      const character = text[index]
      if (this.#escaped) this.#escaped = false
      else if (this.#inString) {
        if (character === '\\') this.#escaped = true
        else if (character === '"') this.#inString = false
      } else if (character === '"') this.#inString = true
      else if (character === '{' || character === '[') this.#depth++
      else if ((character === '}' || character === ']') && --this.#depth <= 0) return index + 1
    }
    return undefined
  }
}
