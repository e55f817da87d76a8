import { nearestName } from '@cllm/core'

/** `; did you mean X?`, or nothing. */
export const suggestion = (name: string, candidates: Iterable<string>, prefix = ''): string => {
  const nearest = nearestName(name, candidates)
  return nearest === undefined ? '' : `; did you mean ${prefix}${nearest}?`
}
