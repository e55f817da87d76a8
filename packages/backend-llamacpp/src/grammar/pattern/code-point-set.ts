const highest = 0x10ffff

/** Code points from the first to the last one, both included. */
export type CodePointRange = readonly [first: number, last: number]

/** A set of Unicode code points as ranges in rising order, with gaps between them. */
export type CodePointSet = readonly CodePointRange[]

/** All code points that are in at least one of the ranges. */
export function union(ranges: readonly CodePointRange[]): CodePointSet {
  if (ranges.length < 2) return ranges
  const merged: [number, number][] = []
  for (const [first, last] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const before = merged.at(-1)
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last)
    else merged.push([first, last])
  }
  return merged
}

/** All code points that are not in the set. */
export function complement(set: CodePointSet): CodePointSet {
  const ranges: CodePointRange[] = []
  let next = 0
  for (const [first, last] of set) {
    if (first > next) ranges.push([next, first - 1])
    next = last + 1
  }
  if (next <= highest) ranges.push([next, highest])
  return ranges
}

/** The code points of the first set that are not in the second. */
export function difference(set: CodePointSet, without: CodePointSet): CodePointSet {
  return complement(union([...complement(set), ...without]))
}

/** Whether a set contains a code point. */
export function includes(set: CodePointSet, code: number): boolean {
  return meets(set, code, code)
}

/** Whether a set contains any code point of this range. */
export function meets(set: CodePointSet, low: number, high: number): boolean {
  let from = 0
  let to = set.length - 1
  while (from <= to) {
    const middle = (from + to) >> 1
    const [first, last] = set[middle]!
    if (high < first) to = middle - 1
    else if (low > last) from = middle + 1
    else return true
  }
  return false
}

/** Whether a set contains all code points of this range. */
export function covers(set: CodePointSet, low: number, high: number): boolean {
  return set.some(([first, last]) => first <= low && high <= last)
}

export const digits: CodePointSet = [[0x30, 0x39]]
/** `\w`. */
export const wordCharacters = union([...digits, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]])
export const lineEnds = union([
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
])
/** `\s`. */
export const spaces = union([
  ...lineEnds,
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
])
