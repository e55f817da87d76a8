import { isQuantized, type KvCacheType } from '@cllm/backend-llamacpp/kv-cache-type'
import { CllmError, PluginRegistry } from '@cllm/core'
import {
  areLoopback,
  builtInProtocols,
  createKoaProtocols,
  type KoaProtocolsOptions,
} from '@cllm/http-koa'
import { createPolicy, modelSchedulers } from '@cllm/scheduler'
import type { Setting } from './layers.js'
import { describeValue, suggestion } from './messages.js'
import { accepts, splitAtCommas } from './options/value-format.js'
import { isPlainTemplate, ofCluster } from './paths.js'
import { policyOptionsOf } from './resolve-policy.js'
import {
  checkPresets,
  type PresetSettings,
  type ServedModel,
  settingsOfModel,
} from './served-models.js'

/** The setting with a path, whose value is of the right format. */
export type Find = (path: string) => Setting

type Options = Readonly<Record<string, unknown>>

/**
 * Problems with the choice of policy, model scheduler, protocols and their options. Only for a configuration without
 * plug-ins: what those add is known only once they are loaded.
 */
export function* checkBuiltIns(find: Find): Generator<string> {
  const registry = new PluginRegistry()
  for (const one of modelSchedulers) registry.registerModelScheduler(one)
  for (const protocol of builtInProtocols) registry.registerProtocol(protocol)

  const [policy, policyOptions] = [find('scheduler.policy'), find('scheduler.policy_options')]
  const slo = find('scheduler.slo')
  const name = String(policy.value)
  const given = policyOptions.value as Options
  const all = policyOptionsOf({ policy_options: given, slo: slo.value as Options })
  yield* firstProblem(
    [policy, () => createPolicy(name)],
    [policyOptions, () => createPolicy(name, given)],
    [slo, () => createPolicy(name, all)],
  )

  const [models, modelOptions] = [find('models.scheduler'), find('models.scheduler_options')]
  const createScheduler = (given?: Options) =>
    registry.modelSchedulers.create(String(models.value), given)
  yield* firstProblem(
    [models, () => createScheduler()],
    [modelOptions, () => createScheduler(modelOptions.value as Options)],
  )

  const [protocols, protocolOptions] = [find('server.protocols'), find('server.protocol_options')]
  const names = protocols.value as 'all' | readonly string[]
  const options = protocolOptions.value as NonNullable<KoaProtocolsOptions['options']>
  if (names !== 'all') {
    yield* firstProblem([protocols, () => createKoaProtocols(registry, { names })])
  }
  yield* firstProblem([protocolOptions, () => createKoaProtocols(registry, { options })])
}

/** The first failure, with the setting that causes it. */
function* firstProblem(...tries: readonly (readonly [setting: Setting, make: () => unknown])[]) {
  for (const [{ label }, make] of tries) {
    try {
      make()
    } catch (error) {
      if (!CllmError.isInstance(error)) throw error
      yield `${label}: ${error.message}`
      return
    }
  }
}

/** Problems with settings that are each valid but contradict one another. */
export function* checkTogether(find: Find): Generator<string> {
  yield* checkServer(find)
  yield* checkEngine(find)
  yield* checkModels(find)
  yield* checkCluster(find)
}

function* checkServer(find: Find): Generator<string> {
  const [one, all] = [find('server.body_limit'), find('server.bodies_limit')]
  if (one.value !== 'auto' && Number(all.value) < Number(one.value)) {
    const least = `the largest body of one request (${one.label}: ${String(one.value)})`
    yield `${all.label}: expected at least ${least}, got ${String(all.value)}`
  }
  const share = find('server.batch_share')
  if (Number(share.value) !== 0 && find('server.batches').value === null) {
    yield `${share.label}: expected --batches, as it is the share of batches on this machine`
  }
}

function* checkEngine(find: Find): Generator<string> {
  const [slots, batchSize] = [find('engine.slots'), find('engine.batch_size')]
  if (Number(batchSize.value) < Number(slots.value)) {
    const each = `each of the ${String(slots.value)} slots (${slots.label})`
    yield `${batchSize.label}: expected at least one token for ${each}, got ${String(batchSize.value)}`
  }
  const [cacheType, flash] = [find('engine.kv_cache_type'), find('engine.flash_attention')]
  if (isQuantized(cacheType.value as KvCacheType) && flash.value === false) {
    const reason = `${cacheType.label} ${String(cacheType.value)} needs flash attention`
    yield `${flash.label}: expected true or auto, got false: ${reason}`
  }
}

function* checkCluster(find: Find): Generator<string> {
  const [url, ca] = [find('cluster.url'), find('cluster.ca')]
  const shared = { 'cluster.keys': true, 'cluster.batches': true, 'server.responses': ofCluster }
  for (const [path, ofAll] of Object.entries(shared)) {
    const { value, label } = find(path)
    if (value !== ofAll || url.value !== null) continue
    yield `${label}: ${path.replace(/.*\./, '')} of a cluster need --cluster URL`
  }
  const isPlain = typeof url.value === 'string' && !url.value.startsWith('rediss://')
  if (ca.value !== null && isPlain) {
    yield `${ca.label}: is for TLS, and ${url.label} does not begin with rediss://`
  }
}

/** Problems with the models that are served by name, and with the settings that refer to them. */
function* checkModels(find: Find): Generator<string> {
  const served = find('models.served')
  const models = served.value as Readonly<Record<string, ServedModel>>
  for (const [name, model] of Object.entries(models)) {
    const label = `${served.label}: ${name}`
    yield* checkModel(label, model)
    const own: Find = (path) => {
      const key = path.replace('engine.', '')
      const value = model[key as keyof ServedModel]
      return value === undefined ? find(path) : { ...find(path), label: `${label}: ${key}`, value }
    }
    // Problems without a setting of this model are reported once, for all models.
    for (const problem of checkEngine(own)) if (problem.includes(label)) yield problem
  }
  const presets = find('models.presets')
  const byName = presets.value as Readonly<Record<string, PresetSettings>>
  yield* checkPresets(presets.label, byName)
  const names = Object.keys(models)
  if (names.length === 0) return

  for (const { value, label } of [find('model.id'), find('model.chat_template')]) {
    if (value !== null) yield `${label}: has no effect together with ${served.label}`
  }
  const [aliases, preload] = [find('models.aliases'), find('models.preload')]
  const byAlias = aliases.value as Readonly<Record<string, string | null>>
  const aliased = Object.values(byAlias).filter((name) => name !== null)
  yield* checkNames(aliases, aliased, names)
  const bases = Object.values(byName).map(({ from }) => from)
  const texts = bases.filter((from) => typeof from === 'string')
  yield* checkNames(presets, texts, [...names, ...Object.keys(byAlias)])
  yield* checkNames(preload, preload.value as readonly string[], names, '*')
}

function* checkModel(label: string, model: ServedModel): Generator<string> {
  for (const [key, value] of Object.entries(model)) {
    const format = settingsOfModel.get(key)?.format
    if (format === undefined) {
      const meant = suggestion(key, settingsOfModel.keys())
      yield `${label}: unknown setting ${key} of a model${meant}`
    } else if (!accepts(format, value)) {
      yield `${label}: ${key}: expected ${format.expected}, got ${describeValue(value)}`
    }
  }
}

/** @param all - the word that stands for every model */
function* checkNames(
  { label }: Setting,
  given: readonly string[],
  names: readonly string[],
  all?: string,
): Generator<string> {
  for (const name of given) {
    if (name === all || names.includes(name)) continue
    yield `${label}: expected one of ${names.join(', ')}, got ${name}${suggestion(name, names)}`
  }
}

/** Warnings about the models. */
export function* warnOfModels(find: Find): Generator<string> {
  const { label, value } = find('model.chat_template')
  if (typeof value !== 'string' || !isPlainTemplate(value)) return
  yield `${label}: a template without {{ … }}: every prompt is ${JSON.stringify(value)}`
}

/**
 * Checks settings that are each valid but unsafe or contradictory together. With a file in the
 * original server's layout, which listens on all addresses, the server starts, with a warning.
 */
export function checkSecurity(find: Find, isOriginalLayout: boolean) {
  const problems: string[] = []
  const warnings: string[] = []
  const host = find('server.host')
  const isShared = find('cluster.keys').value === true && find('cluster.url').value !== null
  const keys = [find('security.api_key'), find('security.api_keys')]
  const hasKeys = keys.some(({ value }) => value !== null)
  const isOpen = !hasKeys && !isShared
  const isReachable = !areLoopback(splitAtCommas(String(host.value)))
  if (isOpen && isReachable && find('security.allow_unauthenticated').value !== true) {
    const what = `${host.label}: ${String(host.value)} can be reached by other machines, and without API keys any client may use the server`
    if (isOriginalLayout) warnings.push(`WARNING! ${what}. Set --api-keys FILE or --api-key KEY`)
    else problems.push(`${what}: set --api-keys FILE, --api-key KEY or --allow-unauthenticated`)
  }
  const [cert, key] = [find('security.tls_cert'), find('security.tls_key')]
  if ((cert.value === null) !== (key.value === null)) {
    const [given, missing] = cert.value === null ? [key, 'tls-cert'] : [cert, 'tls-key']
    problems.push(`${given.label}: expected --${missing} as well`)
  }
  for (const limit of [find('security.requests_per_minute'), find('security.tokens_per_minute')]) {
    if (isOpen && limit.value !== 0) {
      problems.push(`${limit.label}: a limit per key needs --api-keys or --api-key`)
    }
  }
  return { problems, warnings }
}
