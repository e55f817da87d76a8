import { CllmError } from '@cllm/core'
import type { ApiKey, KeyRole } from '@cllm/http-koa'
import Table from 'cli-table3'
import { loadConfig } from '../config/load-config.js'
import { createKey, readKeyFile, updateKeyFile } from '../keys/key-file.js'
import type { CommandIo, RunCommand } from './command-io.js'
import { parseCommand } from './flags/parse-command.js'

const fileOptions = { 'api-keys': { type: 'string' }, config: { type: 'string' } } as const

const fileHelp = `  --api-keys FILE             The key file; also CLLM_API_KEYS
  --config FILE               The YAML file of \`cllm serve\`, for its \`security.api_keys\`
`

const addUsage = `Usage: cllm keys add <name> [flags]

Creates an API key, writes its hash to the key file and prints the key, which cannot be shown again.
A running server with this file accepts the key within a second.

  --tenant NAME               Tenant of the key's requests (default: the name of the key)
  --role user|admin           user may generate, admin may also change the server (default user)
  --requests-per-minute COUNT Limit for this key, instead of the server's
  --tokens-per-minute TOKENS  Limit for this key, instead of the server's
${fileHelp}`

const listUsage = `Usage: cllm keys list [--json] [flags]

Lists the names, tenants, roles and limits of the keys in the file.

  --json                      Print JSON
${fileHelp}`

const revokeUsage = `Usage: cllm keys revoke <name> [flags]

Removes a key from the file. A running server with this file refuses the key within a second.

${fileHelp}`

/** `cllm keys add` */
export const addKey: RunCommand = async (argv, io) => {
  const options = {
    ...fileOptions,
    tenant: { type: 'string' },
    role: { type: 'string' },
    'requests-per-minute': { type: 'string' },
    'tokens-per-minute': { type: 'string' },
  } as const
  const parsed = parseCommand(argv, io, { usage: addUsage, options, words: ['<name>'] })
  if (parsed === undefined) return 0
  const { values, positionals } = parsed
  const [name = ''] = positionals
  const requests = limitOf('requests-per-minute', values['requests-per-minute'])
  const tokens = limitOf('tokens-per-minute', values['tokens-per-minute'])
  const { secret, key } = createKey({
    name,
    tenant: values.tenant ?? name,
    role: roleOf(values.role ?? 'user'),
    ...(requests === undefined ? {} : { requestsPerMinute: requests }),
    ...(tokens === undefined ? {} : { tokensPerMinute: tokens }),
  })
  const file = keyFile(values, io)
  await updateKeyFile(file, io.signal, (keys) => {
    if (keys.some((other) => other.name === name)) {
      throw wrong(`${file} has a key "${name}" already; \`cllm keys revoke\` removes it`)
    }
    return [...keys, key]
  })
  io.stdout.write(`${secret}\n`)
  io.stderr.write(`added to ${file}; the key cannot be shown again\n`)
  return 0
}

/** `cllm keys list` */
export const listKeys: RunCommand = async (argv, io) => {
  const options = { ...fileOptions, json: { type: 'boolean' } } as const
  const parsed = parseCommand(argv, io, { usage: listUsage, options, words: [] })
  if (parsed === undefined) return 0
  const keys = readKeyFile(keyFile(parsed.values, io)).map((key) => ({ ...key, hash: undefined }))
  io.stdout.write(
    parsed.values.json === true ? `${JSON.stringify(keys, undefined, 2)}\n` : `${table(keys)}\n`,
  )
  return 0
}

/** `cllm keys revoke` */
export const revokeKey: RunCommand = async (argv, io) => {
  const options = fileOptions
  const parsed = parseCommand(argv, io, { usage: revokeUsage, options, words: ['<name>'] })
  if (parsed === undefined) return 0
  const [name = ''] = parsed.positionals
  const file = keyFile(parsed.values, io)
  await updateKeyFile(file, io.signal, (keys) => {
    const rest = keys.filter((key) => key.name !== name)
    if (rest.length === keys.length) throw wrong(`${file} has no key "${name}"`)
    return rest
  })
  io.stderr.write(`revoked ${name}\n`)
  return 0
}

function keyFile(
  values: { readonly 'api-keys'?: string | undefined; readonly config?: string | undefined },
  { env }: CommandIo,
): string {
  const argv = (['config', 'api-keys'] as const).flatMap((flag) =>
    values[flag] === undefined ? [] : [`--${flag}`, values[flag]],
  )
  const file = loadConfig({ argv, env }).config.security.api_keys
  if (file === null) throw wrong('expected --api-keys FILE')
  return file
}

function roleOf(role: string): KeyRole {
  if (role === 'user' || role === 'admin') return role
  throw wrong(`--role: expected user or admin, got ${role}`)
}

function limitOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text)
  throw wrong(`--${flag}: expected a whole number from 1 up, got ${text}`)
}

function table(keys: readonly Omit<ApiKey, 'hash'>[]): string {
  const rows = new Table({ head: ['name', 'tenant', 'role', 'requests/min', 'tokens/min'] })
  for (const { name, tenant, role, requestsPerMinute, tokensPerMinute } of keys) {
    rows.push([name, tenant, role, requestsPerMinute ?? 'server', tokensPerMinute ?? 'server'])
  }
  return rows.toString()
}

function wrong(message: string): CllmError {
  return new CllmError('invalid_configuration', message)
}
