/** The result of adding a piece of text. */
export interface StopMatch {
  /** Text that is certainly not part of a stop text. */
  readonly text: string
  /** The stop text that was found; `text` ends before it. */
  readonly stop?: string
}

/**
 * Finds stop texts in a stream of pieces. Holds back text that may be the beginning of a stop text, so that no part of
 * one gets through.
 */
export class StopMatcher {
  #held = ''

  constructor(private readonly stops: readonly string[]) {}

  /** Adds a piece of text; returns the text that can be shown now. */
  push(piece: string): StopMatch {
    const text = this.#held + piece
    const met = this.#find(text)
    if (met !== undefined) {
      this.#held = ''
      return { text: text.slice(0, met.index), stop: met.stop }
    }
    const certain = text.length - this.#possibleStart(text)
    this.#held = text.slice(certain)
    return { text: text.slice(0, certain) }
  }

  /** Ends the text: returns what was held back. */
  end(): string {
    const text = this.#held
    this.#held = ''
    return text
  }

  /** The first stop text in the text; of several at one place the longest. */
  #find(text: string): { index: number; stop: string } | undefined {
    let best: { index: number; stop: string } | undefined
    for (const stop of this.stops) {
      const index = text.indexOf(stop)
      if (index === -1) continue
      const isFirst = best === undefined || index < best.index
      const isLonger = index === best?.index && stop.length > best.stop.length
      if (isFirst || isLonger) best = { index, stop }
    }
    return best
  }

  /** Length of the longest end of the text that is the beginning of a stop text. */
  #possibleStart(text: string): number {
    let longest = 0
    for (const stop of this.stops) {
      for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
        if (text.endsWith(stop.slice(0, length))) longest = length
      }
    }
    return longest
  }
}
