/**
 * A small fast seeded generator of random bits (sfc32 of PractRand,
 * http://pracrand.sourceforge.net), not for secrets. The same seed gives the same bits on every
 * machine.
 */
export class RandomBits {
  #a = 0
  #b = 0
  #c: number
  #counter = 1

  /** @param seed any integer; only its lowest 32 bits are used. */
  constructor(seed: number) {
    this.#c = seed | 0
    this.next(new Uint32Array(12)) // as its author advises, until the seed has reached every bit
  }

  /** Fills an array with random bits and returns it. */
  next(target: Uint32Array): Uint32Array {
    let a = this.#a
    let b = this.#b
    let c = this.#c
    let counter = this.#counter
    for (let index = 0; index < target.length; index++) {
      const output = (a + b + counter) | 0
      counter = (counter + 1) | 0
      a = b ^ (b >>> 9)
      b = (c + (c << 3)) | 0
      c = (((c << 21) | (c >>> 11)) + output) | 0
      target[index] = output
    }
    this.#a = a
    this.#b = b
    this.#c = c
    this.#counter = counter
    return target
  }
}
