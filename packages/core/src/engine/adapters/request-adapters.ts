import type { AppliedAdapter } from '../../contracts/model/adapter.js'

/** The adapters that a request is computed with. */
export interface RequestAdapters {
  /** Those with a scale other than 0, in an order of their own. */
  readonly applied: readonly AppliedAdapter[]
  /** The same for the same adapters with the same scales only; empty without any. */
  readonly key: string
}

/** The model alone. */
export const noAdapters: RequestAdapters = { applied: [], key: '' }

/** The step group of a request: of one group are only those with the same adapters. */
export const groupWith = (
  stepGroup: string | undefined,
  { key }: RequestAdapters,
): string | undefined => (key === '' ? stepGroup : JSON.stringify([stepGroup ?? '', key]))
