import type { Setting } from '../layers/setting.js'

/** Problems with settings of a cluster that are each valid but contradict one another. */
export const checkCluster = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  const find = (name: string) => settings.get(`cluster.${name}`)!
  const url = find('url')
  const problems: string[] = []
  for (const name of ['keys', 'batches']) {
    const { value, label } = find(name)
    if (value !== true || url.value !== null) continue
    problems.push(`${label}: ${name} of a cluster need --cluster URL`)
  }
  const ca = find('ca')
  const isPlain = typeof url.value === 'string' && !url.value.startsWith('rediss://')
  if (ca.value !== null && isPlain) {
    problems.push(`${ca.label}: is for TLS, and ${url.label} does not begin with rediss://`)
  }
  return problems
}
