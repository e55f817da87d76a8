import type { ApiKey, KeyRole } from '@cllm/http-koa'
import Table from 'cli-table3'
import { loadConfig } from '../config/load-config.js'
import { createKey, readKeyFile, updateKeyFile } from '../keys/key-file.js'
import type { CommandIo } from './command-io.js'
import { defineCommand } from './flags/define-command.js'
import { one, toggle, type Values, wrong } from './flags/flags.js'
import { integer } from './flags/values.js'

const fileFlags = {
  'api-keys': one('FILE', 'The key file; also CLLM_API_KEYS', String),
  config: one('FILE', 'The YAML file of `cllm serve`, for its `security.api_keys`', String),
}

const addFlags = {
  tenant: one('NAME', "Tenant of the key's requests (default: the name of the key)", String),
  role: one('ROLE', 'user may generate, admin may also change the server (default user)', roleOf),
  'requests-per-minute': one('COUNT', "Limit for this key, instead of the server's", integer(1)),
  'tokens-per-minute': one('TOKENS', "Limit for this key, instead of the server's", integer(1)),
  'tokens-per-month': one('TOKENS', 'Limit of a month (UTC), on servers with --usage', integer(1)),
  ...fileFlags,
}

/** `cllm keys add` */
export const addKey = defineCommand({
  usage: 'keys add <name>',
  doc: `
Creates an API key, writes its hash to the key file and prints the key, which cannot be shown again.
A running server with this file accepts the key within a second.`,
  flags: addFlags,
  async run({ flags, words: [name = ''] }, io) {
    const { 'requests-per-minute': requests, 'tokens-per-minute': tokens } = flags
    const { 'tokens-per-month': monthly } = flags
    const { secret, key } = createKey({
      name,
      tenant: flags.tenant ?? name,
      role: flags.role ?? 'user',
      ...(requests === undefined ? {} : { requestsPerMinute: requests }),
      ...(tokens === undefined ? {} : { tokensPerMinute: tokens }),
      ...(monthly === undefined ? {} : { tokensPerMonth: monthly }),
    })
    const file = keyFile(flags, io)
    await updateKeyFile(file, io.signal, (keys) => {
      if (keys.some((other) => other.name === name)) {
        throw wrong(`${file} has a key "${name}" already; \`cllm keys revoke\` removes it`)
      }
      return [...keys, key]
    })
    io.stdout.write(`${secret}\n`)
    io.stderr.write(`added to ${file}; the key cannot be shown again\n`)
    return 0
  },
})

const listFlags = { json: toggle('Print JSON'), ...fileFlags }

/** `cllm keys list` */
export const listKeys = defineCommand({
  usage: 'keys list',
  doc: 'Lists the names, tenants, roles and limits of the keys in the file.',
  flags: listFlags,
  async run({ flags }, io) {
    const keys = readKeyFile(keyFile(flags, io)).map((key) => ({ ...key, hash: undefined }))
    io.stdout.write(flags.json ? `${JSON.stringify(keys, undefined, 2)}\n` : `${table(keys)}\n`)
    return 0
  },
})

/** `cllm keys revoke` */
export const revokeKey = defineCommand({
  usage: 'keys revoke <name>',
  doc: 'Removes a key from the file. A running server with this file refuses it within a second.',
  flags: fileFlags,
  async run({ flags, words: [name = ''] }, io) {
    const file = keyFile(flags, io)
    await updateKeyFile(file, io.signal, (keys) => {
      const rest = keys.filter((key) => key.name !== name)
      if (rest.length === keys.length) throw wrong(`${file} has no key "${name}"`)
      return rest
    })
    io.stderr.write(`revoked ${name}\n`)
    return 0
  },
})

function keyFile(flags: Values<typeof fileFlags>, { env }: CommandIo): string {
  const argv = (['config', 'api-keys'] as const).flatMap((flag) =>
    flags[flag] === undefined ? [] : [`--${flag}`, flags[flag]],
  )
  const file = loadConfig({ argv, env }).config.security.api_keys
  if (file === null) throw wrong('expected --api-keys FILE')
  return file
}

function roleOf(role: string): KeyRole {
  if (role === 'user' || role === 'admin') return role
  throw new Error('expected user or admin')
}

function table(keys: readonly Omit<ApiKey, 'hash'>[]): string {
  const limits = ['requests/min', 'tokens/min', 'tokens/month']
  const rows = new Table({ head: ['name', 'tenant', 'role', ...limits] })
  for (const { name, tenant, role, requestsPerMinute, tokensPerMinute, tokensPerMonth } of keys) {
    const minute = [requestsPerMinute ?? 'server', tokensPerMinute ?? 'server']
    rows.push([name, tenant, role, ...minute, tokensPerMonth ?? 'none'])
  }
  return rows.toString()
}
