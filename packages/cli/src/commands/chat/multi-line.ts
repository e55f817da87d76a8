const quotes = '"""'

/** Collects what is typed into whole inputs: a line, or all lines between two `"""`. */
export class MultiLine {
  #lines: string[] | undefined

  /** Whether the input goes on in the next line. */
  get isOpen(): boolean {
    return this.#lines !== undefined
  }

  /** Takes a line; returns the whole input, or undefined while it goes on. */
  push(line: string): string | undefined {
    if (this.#lines === undefined) {
      if (!line.trimStart().startsWith(quotes)) return line
      this.#lines = []
      line = line.trimStart().slice(quotes.length)
    }
    const end = line.lastIndexOf(quotes)
    this.#lines.push(end === -1 ? line : line.slice(0, end))
    if (end === -1) return undefined
    const input = this.#lines.join('\n')
    this.drop()
    return input.trim()
  }

  /** Forgets the lines so far. */
  drop(): void {
    this.#lines = undefined
  }
}
