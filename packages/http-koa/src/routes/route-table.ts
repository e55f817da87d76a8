import { attempt } from '@cllm/core'
import { nativeErrors } from '../errors/error-body.js'
import type { KoaProtocol } from './koa-context.js'
import type { Access, BoundRoute, ErrorFormat, Match } from './route.js'

interface Entry {
  readonly route: BoundRoute
  readonly errors: ErrorFormat
  readonly pattern: RegExp
}

/** A path; unknown paths below it belong to a protocol. */
interface Area {
  readonly path: string
  readonly errors: ErrorFormat
  readonly access: Access
}

/** The routes of a server's protocols. Matching ignores case and a slash at the end. */
export class RouteTable {
  readonly #entries: readonly Entry[]
  readonly #areas: readonly Area[]
  /** The matches of all routes without parameters, by method and path, so that they are found at once. */
  readonly #known = new Map<string, Match>()

  constructor(protocols: readonly KoaProtocol[]) {
    this.#entries = protocols.flatMap(({ name: protocol, routes = [], errors = nativeErrors }) =>
      routes.map((given) => {
        // a plug-in in plain JavaScript may leave the access out: then only admins may use the route
        const route = { ...given, protocol, access: given.access ?? 'admin' }
        return { route, errors: route.errors ?? errors, pattern: patternOf(route.path) }
      }),
    )
    this.#areas = protocols.flatMap(areasOf).toSorted((a, b) => b.path.length - a.path.length)
    for (const { route } of this.#entries) {
      if (hasParameters(route)) continue
      const method = route.method.toUpperCase()
      this.#known.set(`${method} ${route.path}`, this.match(method, route.path))
    }
  }

  /** The routes for a method and a path. */
  match(method: string, path: string): Match {
    const known = this.#known.get(`${method} ${path}`)
    if (known !== undefined) return known
    const entries = this.#entries.filter(({ pattern }) => pattern.test(path))
    if (entries.length === 0) {
      const given = normal(path)
      const area = this.#areas.find((one) => given === one.path || given.startsWith(`${one.path}/`))
      const { errors = nativeErrors, access = 'user' } = area ?? {}
      return { routes: [], methods: [], access, errors }
    }
    const wanted = method === 'HEAD' ? 'get' : method.toLowerCase()
    const found = entries.filter(({ route }) => route.method === wanted)
    const methods = entries.flatMap(({ route }) =>
      route.method === 'get' ? ['HEAD', 'GET'] : [route.method.toUpperCase()],
    )
    const [first = entries[0]!] = found
    return {
      routes: found.map(({ route, pattern }) => ({ route, params: paramsOf(pattern, path) })),
      methods: [...new Set(methods)],
      access: found.length > 0 ? accessOfAll(found) : accessOfOthers(entries),
      errors: first.errors,
    }
  }
}

const hasParameters = ({ path }: Pick<BoundRoute, 'path'>): boolean => /[:*]/.test(path)

/** The access that suffices for each of these routes, as any but the last may leave the answer to the next. */
function accessOfAll(entries: readonly Entry[]): Access {
  const [only = 'admin', ...others] = new Set(entries.map(({ route: { access } }) => access))
  if (others.length === 0) return only
  return [only, ...others].every((each) => each === 'open' || each === 'user') ? 'user' : 'admin'
}

/** The access for a method that a path does not take: `user`, or `admin` if no route of the path is for users. */
const accessOfOthers = (entries: readonly Entry[]): Access =>
  entries.some(({ route: { access } }) => access === 'open' || access === 'user') ? 'user' : 'admin'

/** A protocol's areas: the paths in `under`, and those of its own routes. */
function areasOf({ routes = [], errors = nativeErrors, under = [] }: KoaProtocol): Area[] {
  const isForAdmins = routes.length > 0 && routes.every(({ access }) => access === 'admin')
  const access = isForAdmins ? 'admin' : 'user'
  const own = under.map((path) => ({ path, errors, access }) as const)
  const fixed = routes.filter((route) => route.path !== '/' && !hasParameters(route))
  const below = fixed.map((route) => {
    return { path: normal(route.path), errors: route.errors ?? errors, access } as const
  })
  return [...own, ...below]
}

/** A path in lower case, without the slash at its end. */
function normal(path: string): string {
  const lower = path.toLowerCase()
  return lower.length > 1 && lower.endsWith('/') ? lower.slice(0, -1) : lower
}

function patternOf(path: string): RegExp {
  const source = path
    .replace(/[.\\+?()[\]{}|^$]/g, '\\$&')
    .replace(/:(\w+)/g, '(?<$1>[^/]+)')
    .replace(/\*(\w+)/g, '(?<$1>[^]+?)')
  return new RegExp(path === '/' ? '^/$' : `^${source}/?$`, 'i')
}

function paramsOf(pattern: RegExp, path: string): Readonly<Record<string, string>> {
  const groups = pattern.exec(path)?.groups ?? {}
  // a text with invalid escapes is not decoded
  const decoded = (text: string) => attempt(() => decodeURIComponent(text), text)
  return Object.fromEntries(Object.entries(groups).map(([name, text]) => [name, decoded(text)]))
}
