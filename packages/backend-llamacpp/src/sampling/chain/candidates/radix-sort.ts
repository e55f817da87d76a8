/** Below this many an insertion sort is faster. */
const few = 64
/** Digits of this many bits at most: their counts fit into the caches. */
const widestDigit = 13
/** For so few entries narrow digits are faster, as there are less counts. */
const moderate = 2048
const narrowDigit = 8

const positiveZero = 0
const negativeZero = 0x80000000 | 0

/**
 * Sorts pairs of a token and its logit by logit, the largest first. Equal ones stay in their order.
 * Logits must not be NaN.
 */
export class RadixSort {
  /** How often each digit's values occur, and then where the next entry with this value goes. */
  readonly #places = Array.from({ length: 4 }, () => new Uint32Array(2 ** widestDigit))
  #keys: Int32Array = new Int32Array(0)
  #otherKeys: Int32Array = new Int32Array(0)
  #otherIds: Int32Array = new Int32Array(0)

  /** Sorts the first `size` pairs. */
  sort(ids: Int32Array, logits: Float32Array, size: number): void {
    if (size < few) return insertionSort(ids, logits, size)
    this.#reserve(size)
    const bits = new Int32Array(logits.buffer, logits.byteOffset, size)
    const { base, width } = keyRange(logits, bits)
    const passes = Math.max(1, Math.ceil(width / (size < moderate ? narrowDigit : widestDigit)))
    const digit = Math.ceil(width / passes)
    this.#count(bits, base, passes, digit)
    let from = ids
    let to = this.#otherIds
    for (let pass = 0; pass < passes; pass++) {
      this.#distribute(from, to, pass, digit, size)
      ;[this.#keys, this.#otherKeys] = [this.#otherKeys, this.#keys]
      ;[from, to] = [to, from]
    }
    if (from !== ids) ids.set(from.subarray(0, size))
    const keys = this.#keys
    for (let index = 0; index < size; index++) bits[index] = toBits((keys[index]! + base) | 0)
  }

  /** Makes the keys, with as few bits as can be, and counts their digits. */
  #count(bits: Int32Array, base: number, passes: number, width: number): void {
    const keys = this.#keys
    const mask = 2 ** width - 1
    for (let pass = 0; pass < passes; pass++) this.#places[pass]!.fill(0, 0, mask + 1)
    const [first, second, third, fourth] = this.#places as [Uint32Array, ...Uint32Array[]]
    for (let index = 0; index < bits.length; index++) {
      const key = (toKey(bits[index]!) - base) | 0
      keys[index] = key
      first[key & mask]! += 1
      if (passes > 1) second![(key >>> width) & mask]! += 1
      if (passes > 2) third![(key >>> (2 * width)) & mask]! += 1
      if (passes > 3) fourth![key >>> (3 * width)]! += 1
    }
  }

  #distribute(from: Int32Array, to: Int32Array, pass: number, width: number, size: number): void {
    const keys = this.#keys
    const otherKeys = this.#otherKeys
    const places = this.#places[pass]!
    const shift = pass * width
    const mask = 2 ** width - 1
    for (let digit = 0, place = 0; digit <= mask; digit++) {
      const count = places[digit]!
      places[digit] = place
      place += count
    }
    for (let index = 0; index < size; index++) {
      const key = keys[index]!
      const digit = (key >>> shift) & mask
      const place = places[digit]!
      places[digit] = place + 1
      otherKeys[place] = key
      to[place] = from[index]!
    }
  }

  #reserve(size: number): void {
    if (this.#keys.length >= size) return
    const capacity = Math.max(2 * this.#keys.length, size)
    this.#keys = new Int32Array(capacity)
    this.#otherKeys = new Int32Array(capacity)
    this.#otherIds = new Int32Array(capacity)
  }
}

/** Numbers that are in the reverse order of the floats with these bits when they count as unsigned. */
const toKey = (bits: number): number => (bits < 0 ? bits : bits ^ 0x7fffffff)

/** The way back is the same. */
const toBits = (key: number): number => (key < 0 ? key : key ^ 0x7fffffff)

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

/** The smallest key, and how many bits the others have beyond it. */
function keyRange(logits: Float32Array, bits: Int32Array): { base: number; width: number } {
  let largest = 0
  let smallest = 0
  for (let index = 1; index < bits.length; index++) {
    const logit = logits[index]!
    if (logit > logits[largest]!) largest = index
    if (logit < logits[smallest]!) smallest = index
  }
  // the two zeros are equal as floats and have different keys
  const base = toKey(logits[largest] === 0 ? positiveZero : bits[largest]!)
  const last = toKey(logits[smallest] === 0 ? negativeZero : bits[smallest]!)
  return { base, width: 32 - Math.clz32(last - base) }
}
