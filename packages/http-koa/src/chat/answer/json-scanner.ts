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
