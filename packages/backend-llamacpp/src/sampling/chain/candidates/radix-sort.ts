/** Below this many an insertion sort is faster. */
const few = 64
/** Digits of so many bits at most: their counts fit into the caches. */
const widestDigit = 13
/** For so few entries narrow digits are faster, as there are less counts. */
const moderate = 2048
const narrowDigit = 8

/**
 * Sorts pairs of a token and its logit by logit, the largest first. Equal ones stay in their order.
 * Logits must not be NaN.
 */
export class RadixSort {
  readonly #counts = new Uint32Array(2 ** widestDigit)
  #keys: Uint32Array = new Uint32Array(0)
  #otherKeys: Uint32Array = new Uint32Array(0)
  #otherIds: Int32Array = new Int32Array(0)

  /** Sorts the first `size` pairs. */
  sort(ids: Int32Array, logits: Float32Array, size: number): void {
    if (size < few) return insertionSort(ids, logits, size)
    this.#reserve(size)
    const bits = new Int32Array(logits.buffer, logits.byteOffset, size)
    const { least, width } = this.#makeKeys(bits)
    const passes = Math.ceil(width / (size < moderate ? narrowDigit : widestDigit))
    const digit = Math.ceil(width / passes)
    let from = ids
    let to = this.#otherIds
    for (let pass = 0; pass < passes; pass++) {
      this.#distribute(from, to, pass * digit, digit, size)
      ;[this.#keys, this.#otherKeys] = [this.#otherKeys, this.#keys]
      ;[from, to] = [to, from]
    }
    if (from !== ids) ids.set(from.subarray(0, size))
    const keys = this.#keys
    for (let index = 0; index < size; index++) bits[index] = toBits(keys[index]! + least)
  }

  /** Makes the keys, less the smallest one, so that they have as few bits as can be. */
  #makeKeys(bits: Int32Array): { least: number; width: number } {
    const keys = this.#keys
    let least = 0xffffffff
    let most = 0
    for (let index = 0; index < bits.length; index++) {
      const key = toKey(bits[index]!)
      keys[index] = key
      if (key < least) least = key
      if (key > most) most = key
    }
    for (let index = 0; index < bits.length; index++) keys[index] = keys[index]! - least
    return { least, width: 32 - Math.clz32(most - least) }
  }

  #distribute(from: Int32Array, to: Int32Array, shift: number, width: number, size: number): void {
    const keys = this.#keys
    const otherKeys = this.#otherKeys
    const mask = 2 ** width - 1
    const places = this.#counts.fill(0, 0, mask + 1)
    for (let index = 0; index < size; index++) {
      const digit = (keys[index]! >>> shift) & mask
      places[digit] = places[digit]! + 1
    }
    let place = 0
    for (let digit = 0; digit <= mask; digit++) {
      const count = places[digit]!
      places[digit] = place
      place += count
    }
    for (let index = 0; index < size; index++) {
      const key = keys[index]!
      const digit = (key >>> shift) & mask
      const next = places[digit]!
      places[digit] = next + 1
      otherKeys[next] = key
      to[next] = from[index]!
    }
  }

  #reserve(size: number): void {
    if (this.#keys.length >= size) return
    const capacity = Math.max(2 * this.#keys.length, size)
    this.#keys = new Uint32Array(capacity)
    this.#otherKeys = new Uint32Array(capacity)
    this.#otherIds = new Int32Array(capacity)
  }
}

/** Unsigned numbers in the reverse order of the floats with these bits. */
function toKey(bits: number): number {
  return (bits < 0 ? bits : ~(bits | 0x80000000)) >>> 0
}

function toBits(key: number): number {
  return key < 0x80000000 ? ~(key | 0x80000000) : key
}

function insertionSort(ids: Int32Array, logits: Float32Array, size: number): void {
  for (let index = 1; index < size; index++) {
    const logit = logits[index]!
    const id = ids[index]!
    let place = index
    for (; place > 0 && logits[place - 1]! < logit; place--) {
      logits[place] = logits[place - 1]!
      ids[place] = ids[place - 1]!
    }
    logits[place] = logit
    ids[place] = id
  }
}
