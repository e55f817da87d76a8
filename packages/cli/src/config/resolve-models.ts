import type { Setting } from './setting.js'

/** The options that say what is served. */
export const modelPaths = { spec: 'model.spec', served: 'models.served' } as const

const isEmpty = (models: unknown): boolean =>
  typeof models === 'object' && models !== null && Object.keys(models).length === 0

/**
 * Finds what the layers, lowest first, want served: one model or several by name. A layer that says
 * one of them overrides both in those below it; in one that says both, several count.
 */
export const resolveModels = (
  layers: readonly (readonly Setting[])[],
  none: Setting,
): { readonly served: Setting; readonly problems: readonly string[] } => {
  const problems: string[] = []
  let served = none
  for (const layer of layers) {
    const one = layer.find(({ path }) => path === modelPaths.spec)
    const several = layer.find(({ path, value }) => path === modelPaths.served && !isEmpty(value))
    // `cllm config` prints both; flags are written by people.
    if (one !== undefined && one.label === several?.label) {
      problems.push(
        `${one.label}: expected NAME=SPEC for each of several, got ${String(one.value)}`,
      )
    }
    if (several !== undefined) served = several
    else if (one !== undefined) served = none
  }
  return { served, problems }
}
