import { byteAlphabet } from '@cllm/core'

/** The bytes by the characters that spell them; -1: none. */
const spelled = new Int16Array(0x200).fill(-1)
for (const [byte, character] of byteAlphabet.entries()) spelled[character.charCodeAt(0)] = byte

/** The byte that a character spells; negative: none. */
export const spelledByte = (code: number): number => spelled[code] ?? -1
/** The byte that a character is in the text of a token; negative where it is several. */
export const plainByte = (code: number): number =>
  code < 0x80 ? code : code === 0x2581 ? 0x20 : -1

/** The bytes that a byte-pair token spells, or undefined if it is not spelled in bytes. */
export function spelledBytes(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length)
  for (let index = 0; index < text.length; index++) {
    const byte = spelledByte(text.charCodeAt(index))
    if (byte < 0) return undefined
    bytes[index] = byte
  }
  return bytes
}

/** The texts of tokens, one behind the other. */
export class TextsWriter {
  readonly #starts: Uint32Array
  #bytes: Uint8Array
  #count = 0
  #end = 0

  constructor(size: number) {
    this.#starts = new Uint32Array(size + 1)
    this.#bytes = new Uint8Array(8 * size)
  }

  get all() {
    return { bytes: this.#bytes.slice(0, this.#end), starts: this.#starts }
  }

  /** Returns how many bytes the text has. */
  add(text: Uint8Array): number {
    this.#reserve(text.length)
    this.#bytes.set(text, this.#end)
    return this.#close(text.length)
  }

  /** The same with a text of which each character is one byte; undefined, and nothing is added, where one is not. */
  addSpelled(text: string, byteOf: (code: number) => number): number | undefined {
    const { length } = text
    this.#reserve(length)
    const [bytes, end] = [this.#bytes, this.#end]
    for (let at = 0; at < length; at++) {
      const byte = byteOf(text.charCodeAt(at))
      if (byte < 0) return undefined
      bytes[end + at] = byte
    }
    return this.#close(length)
  }

  #close(length: number): number {
    this.#end += length
    this.#starts[++this.#count] = this.#end
    return length
  }

  #reserve(more: number): void {
    if (this.#end + more <= this.#bytes.length) return
    this.#bytes = Buffer.concat([this.#bytes], 2 * this.#bytes.length + more)
  }
}

/** What spells white space. */
export const spelledGaps: Readonly<Record<string, string>> = {
  '\u010a': '\n',
  '\u0120': ' ',
  '\u2581': ' ',
}

/** What was found behind letters; most texts have nothing that was not found before. */
export class JoinedCharacters {
  readonly found = new Set<string>()
  /** By the code of a character that may be found: 1 until it is. */
  readonly #wanted = new Uint8Array(0x2582)

  constructor() {
    for (let code = 0x20; code < 0x7f; code++) this.#wanted[code] = 1
    for (const spelled of ['\n', ...Object.keys(spelledGaps)]) {
      this.#wanted[spelled.charCodeAt(0)] = 1
    }
  }

  mayAdd(text: string): boolean {
    for (let at = 1; at < text.length; at++) {
      if (this.#wanted[text.charCodeAt(at)] === 1) return true
    }
    return false
  }

  /** @param character - as it is in the text; `spelled` what it stands for */
  add(character: string, spelled: string): void {
    this.found.add(spelled)
    this.#wanted[character.charCodeAt(0)] = 0
  }
}
