/** For fewer pairs than this an insertion sort is faster. */
const few = 128

/** A key has three digits of this many bits, so that their counts fit into the CPU's caches. */
const digitBits = 11
const digitValues = 2 ** digitBits
const mask = digitValues - 1

const negativeZero = -(2 ** 31)

/**
 * Sorts pairs of a token and its logit by logit, the largest first. The sort is stable. Logits must not be NaN.
 */
export class RadixSort {
  /** By digit and value: at first how often the value occurs, then where the next entry with this value goes. */
  readonly #places = new Uint32Array(3 * digitValues)
  #otherKeys = new Int32Array(0)
  #otherIds = new Int32Array(0)

  /** Sorts the first `size` pairs. */
  sort(ids: Int32Array, logits: Float32Array, size: number): void {
    if (size < few) return insertionSort(ids, logits, size)
    if (this.#otherIds.length < size) {
      this.#otherKeys = new Int32Array(2 * size)
      this.#otherIds = new Int32Array(2 * size)
    }
    const keys = new Int32Array(logits.buffer, logits.byteOffset, size)
    const [otherKeys, otherIds] = [this.#otherKeys, this.#otherIds]
    this.#count(keys)
    this.#distribute(0, size, keys, ids, otherKeys, otherIds)
    this.#distribute(1, size, otherKeys, otherIds, keys, ids)
    this.#distribute(2, size, keys, ids, otherKeys, otherIds)
    ids.set(otherIds.subarray(0, size))
    for (let index = 0; index < size; index++) keys[index] = turned(otherKeys[index]!)
  }

  /** Replaces the bits of logits with keys, and counts their digits. */
  #count(keys: Int32Array): void {
    const counts = this.#places.fill(0)
    for (let index = 0; index < keys.length; index++) {
      const bits = keys[index]!
      // the two zeros are equal
      const key = turned(bits === negativeZero ? 0 : bits)
      keys[index] = key
      counts[key & mask]! += 1
      counts[digitValues + ((key >>> digitBits) & mask)]! += 1
      counts[2 * digitValues + (key >>> (2 * digitBits))]! += 1
    }
  }

  /** Moves all pairs to the places that a digit of their keys determines. */
  #distribute(
    digit: number,
    size: number,
    keys: Int32Array,
    ids: Int32Array,
    toKeys: Int32Array,
    toIds: Int32Array,
  ): void {
    const places = this.#places
    const shift = digit * digitBits
    const first = digit * digitValues
    let place = 0
    for (let value = first; value < first + digitValues; value++) {
      const count = places[value]!
      places[value] = place
      place += count
    }
    for (let index = 0; index < size; index++) {
      const key = keys[index]!
      const to = places[first + ((key >>> shift) & mask)]!++
      toKeys[to] = key
      toIds[to] = ids[index]!
    }
  }
}

/**
 * Converts the bits of a float to a key: as unsigned numbers, keys have the reverse order of the floats. Converts a key
 * back in the same way.
 */
const turned = (bits: number): number => (bits < 0 ? bits : bits ^ 0x7fffffff)

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
