import type { EngineDirectory } from '@cllm/core'
import type { CllmConfig } from '../../config/options/schema.js'

/** What a newcomer needs of a server that listens: where to chat, where to send requests, what answers, how to stop it. */
export function whatNext(
  url: string,
  { server, security }: CllmConfig,
  directory: EngineDirectory,
): string {
  const at = url.replace(/\/\/(0\.0\.0\.0|\[::\])(?=:\d)/, '//localhost')
  const has = (protocol: string) =>
    server.protocols === 'all' || server.protocols.includes(protocol)
  const needsKey = security.api_key !== null || security.api_keys !== null
  const rows = [
    server.ui && has('web') ? ['chat', `${at}/`] : [],
    has('openai') ? ['API', `${at}/v1${needsKey ? ' (with an API key)' : ''}`] : [],
    ['model', modelsOf(directory)],
    ['stop', 'Ctrl-C'],
  ]
  return rows.map(([name = '', text]) => (text ? `  ${name.padEnd(7)}${text}\n` : '')).join('')
}

function modelsOf(directory: EngineDirectory): string {
  const names = directory.list()
  // A front's come with its workers.
  if (names.length === 0) return 'none yet'
  if (names.length > 1) return names.join(', ')
  const { slots, contextSize } = directory.status().info?.limits ?? {}
  return `${names[0]}${slots === undefined ? '' : `, ${slots} slots × ${contextSize} tokens`}`
}
