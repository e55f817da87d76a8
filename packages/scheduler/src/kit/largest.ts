/** The last of those for which `value` is largest; undefined of none. */
export function largest<T>(list: readonly T[], value: (one: T) => number): T | undefined {
  let best: T | undefined
  let most = -Infinity
  for (const one of list) {
    const now = value(one)
    if (best === undefined || now >= most) [best, most] = [one, now]
  }
  return best
}
