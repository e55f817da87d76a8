import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import Config from '@npmcli/config'
import npmDefinitions from '@npmcli/config/lib/definitions/index.js'

/**
 * npm's own settings as pacote takes them: registry, access tokens, proxies and certificates from
 * `.npmrc` files and `npm_config_…` variables, so that a model comes from wherever the user's npm
 * gets its packages.
 */
export async function npmConfig(
  env: NodeJS.ProcessEnv,
  cwd: string,
): Promise<Record<string, unknown>> {
  const config = new Config({
    ...npmDefinitions,
    npmPath: dirname(fileURLToPath(import.meta.url)),
    env: { ...env }, // npm writes its own variables into it
    argv: [],
    cwd,
    warn: false,
  })
  await config.load()
  return {
    ...config.flat,
    cache: undefined, // pacote then keeps no second copy of the tarball
    // npm's own pauses of 10 s and 60 s are a long time to look at a still bar
    retry: { ...(config.flat['retry'] as object), minTimeout: 1_000, maxTimeout: 5_000 },
  }
}
