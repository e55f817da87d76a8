import { BlockList, isIP } from 'node:net'
import { splitAtCommas } from '../options/value-format.js'
import type { Setting } from '../layers/setting.js'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** Whether only this machine can reach a server on this address. */
const isLoopback = (host: string): boolean => {
  const version = isIP(host)
  if (version === 0) return host.toLowerCase() === 'localhost'
  return loopback.check(host, version === 6 ? 'ipv6' : 'ipv4')
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
  if (isOpen && find('allow_unauthenticated').value !== true && !hosts.every(isLoopback)) {
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
