/**
 * The value that is the `k`-th largest of the first `size`, which come out in another order
 * (quickselect). 1 ≤ k ≤ size; no value may be NaN.
 */
export function kthLargest(values: Float32Array, size: number, k: number): number {
  const wanted = k - 1
  let low = 0
  let high = size - 1
  while (low < high) {
    const pivot = medianOf(values[low]!, values[(low + high) >>> 1]!, values[high]!)
    let left = low
    let right = high
    while (left <= right) {
      while (values[left]! > pivot) left += 1
      while (values[right]! < pivot) right -= 1
      if (left > right) break
      const value = values[left]!
      values[left++] = values[right]!
      values[right--] = value
    }
    if (wanted <= right) high = right
    else if (wanted >= left) low = left
    else return pivot
  }
  return values[wanted]!
}

function medianOf(a: number, b: number, c: number): number {
  return Math.max(Math.min(a, b), Math.min(Math.max(a, b), c))
}
