import { didYouMean } from '@cllm/core'

/** {@link didYouMean} as on a command line: without quotation marks. */
export const suggestion = (name: string, candidates: Iterable<string>, prefix = ''): string =>
  didYouMean(name, candidates, (nearest) => `${prefix}${nearest}`)
