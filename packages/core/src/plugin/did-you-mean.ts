import { closest, distance } from 'fastest-levenshtein'

/** `; did you mean "X"?` with the name that was probably meant, or nothing when none is near. */
export function didYouMean(name: string, names: readonly string[]): string {
  const candidates = names.map((candidate) => candidate.toLowerCase())
  const index = candidates.indexOf(closest(name.toLowerCase(), candidates))
  const nearest = names[index]
  if (nearest === undefined) return ''
  const errors = distance(name.toLowerCase(), nearest.toLowerCase())
  return errors <= Math.max(2, Math.ceil(name.length / 3)) ? `; did you mean "${nearest}"?` : ''
}
