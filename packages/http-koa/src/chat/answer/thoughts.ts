import type { ReadPart } from './read-part.js'

/** Reasoning that comes in pieces, without the white space around it. */
export class Thoughts {
  #hasBegun = false
  /** White space that belongs to it if more comes. */
  #blank = ''

  /** @param isEnd - whether no more comes: then what follows is other reasoning */
  push(text: string, isEnd: boolean): readonly ReadPart[] {
    const shown = this.#blank + text
    const solid = shown.trimEnd()
    const start = this.#hasBegun ? 0 : solid.length - solid.trimStart().length
    const blank = shown.slice(solid.length)
    const parts: ReadPart[] = []
    if (start > 0) parts.push({ type: 'dropped', text: solid.slice(0, start) })
    if (solid !== '') parts.push({ type: 'reasoning', text: solid.slice(start) })
    if (isEnd && blank !== '') parts.push({ type: 'dropped', text: blank })
    this.#blank = isEnd ? '' : blank
    this.#hasBegun = !isEnd && (this.#hasBegun || solid !== '')
    return parts
  }
}
