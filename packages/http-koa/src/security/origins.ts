const localPage = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i

/** Origins that no web site can have: apps that bring their pages along, such as Obsidian, Tauri's and VS Code's. */
const appPage =
  /^((app|capacitor|ionic|tauri|vscode-file|vscode-webview|wails):\/\/[^/?#@]*|https?:\/\/tauri\.localhost)$/i

/** What the pages of this machine are, for a server that only this machine reaches and that asks for no key. */
export const ownOrigins: readonly string[] = ['localhost', 'apps']

/**
 * Whether these settings let pages of this origin use the API: `*` is all of them, `localhost` is every
 * page of this machine, whatever its port, and `apps` those that apps bring along.
 */
export const isAllowedOrigin = (origins: readonly string[], origin: string): boolean =>
  origins.includes('*') ||
  origins.includes(origin) ||
  (origins.includes('localhost') && localPage.test(origin)) ||
  (origins.includes('apps') && appPage.test(origin))

/** Whether only this machine reaches a server that listens there. */
export const areLoopback = (hosts: readonly string[]): boolean =>
  hosts.every((host) => /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i.test(host))

/** The host and port of an origin; undefined of `null` and what is no URL of the web. */
export function hostOf(origin: string): string | undefined {
  const [, host] = /^https?:\/\/([^/?#@]+)$/i.exec(origin) ?? []
  return host?.toLowerCase()
}
