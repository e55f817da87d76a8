import { CllmError, PluginRegistry } from '@cllm/core'
import { builtInProtocols, createKoaProtocols, type KoaProtocolsOptions } from '@cllm/http-koa'
import { createPolicy, modelSchedulers } from '@cllm/scheduler'
import type { Setting } from '../layers/setting.js'
import { policyOptionsOf } from '../resolve-policy.js'

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
