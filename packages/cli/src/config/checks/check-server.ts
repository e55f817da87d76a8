import type { Setting } from '../layers/setting.js'

/** Problems with settings of the HTTP server that are each valid but contradict one another. */
export const checkServer = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  const [one, all] = [settings.get('server.body_limit')!, settings.get('server.bodies_limit')!]
  if (Number(all.value) >= Number(one.value)) return []
  return [
    `${all.label}: expected at least the largest body of one request (${one.label}: ` +
      `${String(one.value)}), got ${String(all.value)}`,
  ]
}
