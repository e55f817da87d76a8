import type { Setting } from '../layers/setting.js'

/** Problems with settings of the HTTP server that are each valid but contradict one another. */
export const checkServer = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  return [...checkBodies(settings), ...checkBatches(settings)]
}

function checkBodies(settings: ReadonlyMap<string, Setting>): readonly string[] {
  const [one, all] = [settings.get('server.body_limit')!, settings.get('server.bodies_limit')!]
  if (Number(all.value) >= Number(one.value)) return []
  return [
    `${all.label}: expected at least the largest body of one request (${one.label}: ` +
      `${String(one.value)}), got ${String(all.value)}`,
  ]
}

function checkBatches(settings: ReadonlyMap<string, Setting>): readonly string[] {
  const [share, folder] = [settings.get('server.batch_share')!, settings.get('server.batches')!]
  if (Number(share.value) === 0 || folder.value !== null) return []
  return [`${share.label}: expected --batches, as it is the share of batches on this machine`]
}
