/** The id at a worker of a request that a front placed there. */
export const idThere = (link: string, placement: number, id = ''): string =>
  `${link}/${placement}/${id}`

/** What a worker says, with the requests of a link under their front's ids; others keep theirs. */
export function withOwnIds(said: unknown, link: string): unknown {
  const prefix = `${link}/`
  const renamed = (value: unknown): unknown => {
    if (typeof value === 'string') {
      return value.startsWith(prefix) ? value.slice(value.indexOf('/', prefix.length) + 1) : value
    }
    if (Array.isArray(value)) return value.map(renamed)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, renamed(one)]))
  }
  return renamed(said)
}
