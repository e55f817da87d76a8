import { nearestName } from '../errors/nearest-name.js'

/** `; did you mean "X"?` with the name that was probably meant, or nothing when none is near. */
export function didYouMean(name: string, names: readonly string[]): string {
  const nearest = nearestName(name, names)
  return nearest === undefined ? '' : `; did you mean "${nearest}"?`
}
