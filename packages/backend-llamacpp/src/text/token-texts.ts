import { byteAlphabet } from '@cllm/core'

/** By code of a character: the byte that it spells; -1: none. */
const spelled = new Int16Array(0x200).fill(-1)
for (const [byte, character] of byteAlphabet.entries()) spelled[character.charCodeAt(0)] = byte

/** The byte that a character spells in byte-level vocabularies; negative: none. */
export const spelledByte = (code: number): number => spelled[code] ?? -1
/** The byte of an ASCII character, or of the space that ▁ stands for; negative for all other characters. */
export const plainByte = (code: number): number =>
  code < 0x80 ? code : code === 0x2581 ? 0x20 : -1

/** The bytes that a byte-pair token spells; undefined if its text spells no bytes. */
export function spelledBytes(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length)
  for (let index = 0; index < text.length; index++) {
    const byte = spelledByte(text.charCodeAt(index))
    if (byte < 0) return undefined
    bytes[index] = byte
  }
  return bytes
}

/** Writes the texts of tokens into one buffer, one after the other. */
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

  /** Adds a text; returns its number of bytes. */
  add(text: Uint8Array): number {
    this.#reserve(text.length)
    this.#bytes.set(text, this.#end)
    return this.#close(text.length)
  }

  /** Adds a text in which each character is one byte; undefined, with nothing added, if a character is not. */
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

/** The characters that spell white space. */
export const spelledGaps: Readonly<Record<string, string>> = {
  '\u010a': '\n',
  '\u0120': ' ',
  '\u2581': ' ',
}

/** Collects the characters that tokens have behind letters. Fast, as most texts have no new ones. */
export class JoinedCharacters {
  readonly found = new Set<string>()
  /** By code of a character: 1 until it is found. */
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

  /** @param character - the character in the text; `spelled` is the one that it spells */
  add(character: string, spelled: string): void {
    this.found.add(spelled)
    this.#wanted[character.charCodeAt(0)] = 0
  }
}
