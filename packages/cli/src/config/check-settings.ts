import { CllmError, PluginRegistry } from '@cllm/core'
import {
  builtInProtocols,
  createKoaProtocols,
  type KoaProtocolsOptions,
  areLoopback,
} from '@cllm/http-koa'
import { createPolicy, modelSchedulers } from '@cllm/scheduler'
import { isQuantized, type KvCacheType } from '@cllm/backend-llamacpp/kv-cache-type'
import type { Setting } from './layers/layer.js'
import { policyOptionsOf } from './resolve-policy.js'
import { ofCluster, isPlainTemplate } from './paths.js'
import { splitAtCommas, accepts, type ValueFormat } from './options/value-format.js'
import { describeValue, suggestion } from './messages.js'
import { schema } from './options/schema.js'
import { type ServedModel, keepAlive, checkPresets, type PresetSettings } from './served-models.js'

/**
 * Problems with the choice of policy, protocols and their options, where there are no plug-ins. What
 * these add is known only once they are loaded.
 *
 * @param settings - of the right formats, by path
 */
export function checkBuiltIns(settings: ReadonlyMap<string, Setting>): readonly string[] {
  const find = (path: string) => settings.get(path)!
  return [...checkPolicy(find), ...checkModelScheduler(find), ...checkProtocols(find)]
}

type Find = (path: string) => Setting

function checkPolicy(find: Find): readonly string[] {
  const [policy, options] = [find('scheduler.policy'), find('scheduler.policy_options')]
  const [name, slo] = [String(policy.value), find('scheduler.slo')]
  const given = options.value as Readonly<Record<string, unknown>>
  const limits = slo.value as Readonly<Record<string, unknown>>
  const unknown = problemsIn(policy, () => createPolicy(name))
  if (unknown.length > 0) return unknown
  const problems = problemsIn(options, () => createPolicy(name, given))
  if (problems.length > 0) return problems
  const all = policyOptionsOf({ policy_options: given, slo: limits })
  return problemsIn(slo, () => createPolicy(name, all))
}

function checkModelScheduler(find: Find): readonly string[] {
  const [choice, options] = [find('models.scheduler'), find('models.scheduler_options')]
  const registry = new PluginRegistry()
  for (const one of modelSchedulers) registry.registerModelScheduler(one)
  const create = (given?: Readonly<Record<string, unknown>>) => () =>
    registry.modelSchedulers.create(String(choice.value), given)
  const unknown = problemsIn(choice, create())
  return unknown.length > 0 ? unknown : problemsIn(options, create(options.value as {}))
}

function checkProtocols(find: Find): readonly string[] {
  const [choice, options] = [find('server.protocols'), find('server.protocol_options')]
  const registry = new PluginRegistry()
  for (const protocol of builtInProtocols) registry.registerProtocol(protocol)
  const check = (setting: Setting, given: KoaProtocolsOptions) =>
    problemsIn(setting, () => createKoaProtocols(registry, given))
  const names = choice.value as 'all' | readonly string[]
  return [
    ...(names === 'all' ? [] : check(choice, { names })),
    ...check(options, { options: options.value as NonNullable<KoaProtocolsOptions['options']> }),
  ]
}

function problemsIn({ label }: Setting, make: () => unknown): readonly string[] {
  try {
    make()
    return []
  } catch (error) {
    if (!CllmError.isInstance(error)) throw error
    return [`${label}: ${error.message}`]
  }
}

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
interface SecurityFindings {
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

const { hang_timeout: _, prepare_timeout: __, ...perModel } = schema.engine
const formats: Readonly<Record<string, ValueFormat<unknown>>> = {
  spec: schema.model.spec.format,
  chat_template: schema.model.chat_template.format,
  keep_alive: keepAlive(),
  ...Object.fromEntries(Object.entries(perModel).map(([name, { format }]) => [name, format])),
}

const known = Object.keys(formats)

const checkOne = (label: string, model: ServedModel): readonly string[] =>
  Object.entries(model).flatMap(([key, value]) => {
    const format = formats[key]
    if (format === undefined) {
      return [`${label}: unknown setting ${key} of a model${suggestion(key, known)}`]
    }
    if (accepts(format, value)) return []
    return [`${label}: ${key}: expected ${format.expected}, got ${describeValue(value)}`]
  })

/** Problems with the models that are served by name, and with the settings that refer to them. */
export const checkModels = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  const served = settings.get('models.served')!
  const models = served.value as Readonly<Record<string, ServedModel>>
  const names = Object.keys(models)
  const problems: string[] = Object.entries(models).flatMap(([name, model]) =>
    checkOne(`${served.label}: ${name}`, model),
  )
  const presets = settings.get('models.presets')!
  const byName = presets.value as Readonly<Record<string, PresetSettings>>
  problems.push(...checkPresets(presets.label, byName))
  if (names.length === 0) return problems
  for (const path of ['model.id', 'model.chat_template']) {
    const { value, label } = settings.get(path)!
    if (value !== null) problems.push(`${label}: has no effect together with ${served.label}`)
  }
  const aliases = settings.get('models.aliases')!
  for (const name of Object.values(aliases.value as Readonly<Record<string, string | null>>)) {
    if (name === null || names.includes(name)) continue
    problems.push(unknownModel(aliases, name, names))
  }
  const nameable = [...names, ...Object.keys(aliases.value as object)]
  for (const { from } of Object.values(byName)) {
    if (typeof from === 'string' && !nameable.includes(from))
      problems.push(unknownModel(presets, from, nameable))
  }
  const preload = settings.get('models.preload')!
  for (const name of preload.value as readonly string[]) {
    if (name !== '*' && !names.includes(name)) problems.push(unknownModel(preload, name, names))
  }
  return problems
}

/** Warnings about the models. */
export const warnOfModels = (settings: ReadonlyMap<string, Setting>): readonly string[] => {
  const { label, value } = settings.get('model.chat_template')!
  if (typeof value !== 'string' || !isPlainTemplate(value)) return []
  return [`${label}: a template without {{ … }}: every prompt is ${JSON.stringify(value)}`]
}

const unknownModel = ({ label }: Setting, name: string, names: readonly string[]): string =>
  `${label}: expected one of ${names.join(', ')}, got ${name}${suggestion(name, names)}`
