const localPage = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i

/**
 * Whether these settings let pages of this origin use the API: `*` is all of them, and `localhost` is
 * every page of this machine, whatever its port.
 */
export const isAllowedOrigin = (origins: readonly string[], origin: string): boolean =>
  origins.includes('*') ||
  origins.includes(origin) ||
  (origins.includes('localhost') && localPage.test(origin))

/** The host and port of an origin; undefined of `null` and what is no URL of the web. */
export function hostOf(origin: string): string | undefined {
  const [, host] = /^https?:\/\/([^/?#@]+)$/i.exec(origin) ?? []
  return host?.toLowerCase()
}
