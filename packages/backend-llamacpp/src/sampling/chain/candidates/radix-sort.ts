const digitBits = 11
const digits = 1 << digitBits
const passes = 3
/** Below this many an insertion sort is faster. */
const few = 48

/**
 * Sorts pairs of a token and its logit by logit, the largest first. Equal ones stay in their order.
 * Logits must not be NaN.
 */
export class RadixSort {
  readonly #counts = new Uint32Array(passes * digits)
  #keys: Uint32Array = new Uint32Array(0)
  #otherKeys: Uint32Array = new Uint32Array(0)
  #otherIds: Int32Array = new Int32Array(0)

  /** Sorts the first `size` pairs. */
  sort(ids: Int32Array, logits: Float32Array, size: number): void {
    if (size < few) return insertionSort(ids, logits, size)
    this.#reserve(size)
    const bits = new Int32Array(logits.buffer, logits.byteOffset, size)
    const counts = this.#counts.fill(0)
    let keys = this.#keys
    for (let index = 0; index < size; index++) {
      const key = toKey(bits[index]!)
      keys[index] = key
      counts[key & (digits - 1)]! += 1
      counts[digits + ((key >>> digitBits) & (digits - 1))]! += 1
      counts[2 * digits + (key >>> (2 * digitBits))]! += 1
    }
    let from = ids
    let to = this.#otherIds
    let otherKeys = this.#otherKeys
    for (let pass = 0; pass < passes; pass++) {
      const shift = pass * digitBits
      if (!this.#toOffsets(pass, (keys[0]! >>> shift) & (digits - 1), size)) continue
      const offsets = this.#counts.subarray(pass * digits, (pass + 1) * digits)
      for (let index = 0; index < size; index++) {
        const key = keys[index]!
        const digit = (key >>> shift) & (digits - 1)
        const place = offsets[digit]!
        offsets[digit] = place + 1
        otherKeys[place] = key
        to[place] = from[index]!
      }
      ;[keys, otherKeys] = [otherKeys, keys]
      ;[from, to] = [to, from]
    }
    if (from !== ids) ids.set(from.subarray(0, size))
    for (let index = 0; index < size; index++) bits[index] = fromKey(keys[index]!)
  }

  /** Turns a pass's counts into places. False when all keys have the same digit there. */
  #toOffsets(pass: number, digit: number, size: number): boolean {
    const counts = this.#counts
    const start = pass * digits
    if (counts[start + digit] === size) return false
    let place = 0
    for (let index = start; index < start + digits; index++) {
      const count = counts[index]!
      counts[index] = place
      place += count
    }
    return true
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

function fromKey(key: number): number {
  return key >>> 31 === 0 ? ~(key | 0x80000000) : key
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
