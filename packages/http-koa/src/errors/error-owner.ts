import type { ApiRoute } from '../routes/api-route.js'
import type { ErrorShape, KoaProtocol } from '../routes/koa-context.js'
import { nativeErrors } from './error-body.js'

type Owner = Pick<KoaProtocol, 'errors' | 'routes'>

/**
 * The protocol whose error format a path uses. A protocol with a route at the path comes before one
 * that only covers it, so `/v1/messages` keeps its own errors beside OpenAI's `/v1`.
 */
export function errorOwner<Protocol extends Owner>(
  protocols: readonly Protocol[],
  path: string,
): Protocol | undefined {
  const covering = protocols.filter(({ errors }) => errors?.covers(path))
  return (
    covering.find(({ routes = [] }) => routes.some((route) => isAt(route, path))) ?? covering[0]
  )
}

/** The error format of a path. */
export const shapeFor = (protocols: readonly Owner[], path: string): ErrorShape =>
  errorOwner(protocols, path)?.errors ?? nativeErrors

/** From its first parameter on, a route matches any rest of a path. */
function isAt(route: ApiRoute, path: string): boolean {
  const fixed = route.path.replace(/[:*].*/, '')
  return fixed === route.path ? path === fixed : path.startsWith(fixed)
}
