import { areLoopback } from '@cllm/http-koa'
import type { Setting } from '../layers/setting.js'
import { ofCluster } from '../paths.js'
import { splitAtCommas } from '../options/value-format.js'
import { isQuantized, type KvCacheType } from '@cllm/backend-llamacpp/kv-cache-type'

/** Problems with settings of the HTTP server that are each valid but contradict one another. */
export const checkServer = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  const find = (name: string) => settings.get(`server.${name}`)!
  const [one, all, share] = [find('body_limit'), find('bodies_limit'), find('batch_share')]
  const problems: string[] = []
  if (one.value !== 'auto' && Number(all.value) < Number(one.value)) {
    const least = `the largest body of one request (${one.label}: ${String(one.value)})`
    problems.push(`${all.label}: expected at least ${least}, got ${String(all.value)}`)
  }
  if (Number(share.value) !== 0 && find('batches').value === null) {
    const what = 'as it is the share of batches on this machine'
    problems.push(`${share.label}: expected --batches, ${what}`)
  }
  return problems
}

/** Problems with engine settings that are each valid but contradict one another. */
export const checkEngine = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  const find = (name: string) => settings.get(`engine.${name}`)!
  const [slots, batchSize] = [find('slots'), find('batch_size')]
  const [cacheType, flashAttention] = [find('kv_cache_type'), find('flash_attention')]
  const problems: string[] = []
  if (Number(batchSize.value) < Number(slots.value)) {
    problems.push(
      `${batchSize.label}: expected at least one token for each of the ${String(slots.value)} slots ` +
        `(${slots.label}), got ${String(batchSize.value)}`,
    )
  }
  if (isQuantized(cacheType.value as KvCacheType) && flashAttention.value === false) {
    problems.push(
      `${flashAttention.label}: expected true or auto, got false: ${cacheType.label} ${String(cacheType.value)} needs flash attention`,
    )
  }
  return problems
}

/** Problems with settings of a cluster that are each valid but contradict one another. */
export const checkCluster = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  const find = (name: string) => settings.get(`cluster.${name}`)!
  const url = find('url')
  const problems: string[] = []
  const shared = { 'cluster.keys': true, 'cluster.batches': true, 'server.responses': ofCluster }
  for (const [path, ofAll] of Object.entries(shared)) {
    const { value, label } = settings.get(path)!
    if (value !== ofAll || url.value !== null) continue
    const name = path.replace(/.*\./, '')
    problems.push(`${label}: ${name} of a cluster need --cluster URL`)
  }
  const ca = find('ca')
  const isPlain = typeof url.value === 'string' && !url.value.startsWith('rediss://')
  if (ca.value !== null && isPlain) {
    problems.push(`${ca.label}: is for TLS, and ${url.label} does not begin with rediss://`)
  }
  return problems
}

/** Problems and warnings about access to the server. */
export interface SecurityFindings {
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

/**
 * Checks settings that are each valid but unsafe or contradictory together. With a file in the
 * original server's layout, which listens on all addresses, the server starts, with a warning.
 */
export const checkSecurity = (
  settings: ReadonlyMap<string, Setting>,
  isOriginalLayout: boolean,
): SecurityFindings => {
  const find = (name: string) => settings.get(`security.${name}`)!
  const host = settings.get('server.host')!
  const hosts = splitAtCommas(String(host.value))
  const [shared, url] = [settings.get('cluster.keys')!, settings.get('cluster.url')!]
  const isShared = shared.value === true && url.value !== null
  const isOpen = find('api_key').value === null && find('api_keys').value === null && !isShared
  const problems: string[] = []
  const warnings: string[] = []
  if (isOpen && find('allow_unauthenticated').value !== true && !areLoopback(hosts)) {
    const what = `${host.label}: ${String(host.value)} can be reached by other machines, and without API keys any client may use the server`
    if (isOriginalLayout) warnings.push(`WARNING! ${what}. Set --api-keys FILE or --api-key KEY`)
    else problems.push(`${what}: set --api-keys FILE, --api-key KEY or --allow-unauthenticated`)
  }
  const [cert, key] = [find('tls_cert'), find('tls_key')]
  if ((cert.value === null) !== (key.value === null)) {
    const [given, missing] = cert.value === null ? [key, 'tls-cert'] : [cert, 'tls-key']
    problems.push(`${given.label}: expected --${missing} as well`)
  }
  for (const name of ['requests_per_minute', 'tokens_per_minute']) {
    const limit = find(name)
    if (isOpen && limit.value !== 0) {
      problems.push(`${limit.label}: a limit per key needs --api-keys or --api-key`)
    }
  }
  return { problems, warnings }
}
