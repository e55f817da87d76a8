import type { Setting } from './layers/setting.js'

/** The options that name the models to serve. */
export const modelPaths = { spec: 'model.spec', served: 'models.served' } as const

const isEmpty = (models: unknown): boolean =>
  typeof models === 'object' && models !== null && Object.keys(models).length === 0

/**
 * Resolves which models the layers, lowest first, serve: one model, or several by name. A layer
 * with either setting overrides both settings of the layers below; if a layer has both, the models
 * by name win.
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
    // Only flags can have the same label for both; a file from `cllm config` has both settings.
    if (one !== undefined && one.label === several?.label) {
      problems.push(
        `${one.label}: expected NAME=SPEC for each of several models, got ${String(one.value)}`,
      )
    }
    if (several !== undefined) served = several
    else if (one !== undefined) served = none
  }
  return { served, problems }
}
