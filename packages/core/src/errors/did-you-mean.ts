import { distance } from 'fastest-levenshtein'

const last = (name: string): string => name.slice(name.lastIndexOf('.') + 1)

/** Typing errors between two names; a right name in a wrong section counts as one. */
const errors = (name: string, candidate: string): number =>
  Math.min(distance(name, candidate), distance(last(name), last(candidate)) + 1)

/** Longer ones are no typing errors, and finding their distance takes long. */
const longestName = 256

/** The candidate that was probably meant, or undefined when none is near. */
export function nearestName(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length > longestName) return undefined
  let nearest: string | undefined
  const { length } = last(name)
  let fewest = Math.min(length, Math.max(2, Math.ceil(length / 3)) + 1)
  for (const candidate of candidates) {
    const count = errors(name.toLowerCase(), candidate.toLowerCase())
    if (count < fewest) [nearest, fewest] = [candidate, count]
  }
  return nearest
}

/**
 * `; did you mean "X"?` with the candidate that was probably meant, or nothing when none is near.
 *
 * @param written - how the candidate is written; default: in quotation marks
 */
export function didYouMean(
  name: string,
  candidates: Iterable<string>,
  written: (nearest: string) => string = (nearest) => `"${nearest}"`,
): string {
  const nearest = nearestName(name, candidates)
  return nearest === undefined ? '' : `; did you mean ${written(nearest)}?`
}
