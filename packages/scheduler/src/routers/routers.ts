import { type RouterDefinition, type RouterPolicy, Catalog } from '@cllm/core'
import { cacheAware, kv } from './published-rules.js'
import { leastLoaded, leastWait, roundRobin, twoChoices } from './plain.js'
import { prefixWait } from './prefix-wait.js'
import { session, tenantSticky } from './sticky.js'

/** The built-in routers, the default first. */
export const routers: readonly RouterDefinition[] = [
  prefixWait,
  roundRobin,
  leastLoaded,
  leastWait,
  twoChoices,
  tenantSticky,
  session,
  cacheAware,
  kv,
]

/** The router of a cluster that names none. */
export const defaultRouterName = 'prefix-wait'

const builtIn = new Catalog<RouterPolicy>('router', 'place')
for (const router of routers) builtIn.add(router)

/**
 * Makes a built-in router by its name.
 *
 * @throws CllmError `invalid_configuration` for an unknown name, an unknown option or a wrong value
 */
export function createRouter(
  name: string = defaultRouterName,
  options: Readonly<Record<string, unknown>> = {},
): RouterPolicy {
  return builtIn.create(name, options)
}
