import { distance } from 'fastest-levenshtein'

const last = (name: string) => name.slice(name.lastIndexOf('.') + 1)

/** Typing errors between two names; a right name in a wrong section counts as one. */
const errors = (name: string, candidate: string) =>
  Math.min(distance(name, candidate), distance(last(name), last(candidate)) + 1)

/** The candidate that was probably meant, or undefined when none is near. */
export const nearestName = (name: string, candidates: Iterable<string>): string | undefined => {
  let nearest: string | undefined
  const { length } = last(name)
  let fewest = Math.min(length, Math.max(2, Math.ceil(length / 3)) + 1)
  for (const candidate of candidates) {
    const count = errors(name.toLowerCase(), candidate.toLowerCase())
    if (count < fewest) [nearest, fewest] = [candidate, count]
  }
  return nearest
}

/** `; did you mean X?`, or nothing. */
export const suggestion = (name: string, candidates: Iterable<string>, prefix = ''): string => {
  const nearest = nearestName(name, candidates)
  return nearest === undefined ? '' : `; did you mean ${prefix}${nearest}?`
}
