import { nearestName } from './nearest-name.js'

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
