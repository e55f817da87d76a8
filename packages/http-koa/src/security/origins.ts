/** Whether these settings let pages of this origin use the API. */
export const isAllowedOrigin = (origins: readonly string[], origin: string): boolean =>
  origins.includes('*') || origins.includes(origin)

/** The host and port of an origin; undefined of `null` and what is no URL of the web. */
export function hostOf(origin: string): string | undefined {
  const [, host] = /^https?:\/\/([^/?#@]+)$/i.exec(origin) ?? []
  return host?.toLowerCase()
}
