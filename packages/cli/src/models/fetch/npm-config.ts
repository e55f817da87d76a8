import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import Config from '@npmcli/config'
import npmDefinitions from '@npmcli/config/lib/definitions/index.js'

/**
 * Reads npm's settings in pacote's form: registry, access tokens, proxies and certificates from
 * `.npmrc` files and `npm_config_…` variables, so that models come from the same registry as the
 * user's npm packages.
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
    // npm's default pauses of 10 s and 60 s would make the progress bar look stuck
    retry: { ...(config.flat['retry'] as object), minTimeout: 1_000, maxTimeout: 5_000 },
  }
}
