import { CllmError } from '@cllm/core'
import { batchingNames, createPolicy, defaultPolicyName, orderNames } from '@cllm/scheduler'
import { policyOptionsOf, type PolicyResolution } from '../resolve-policy.js'
import { suggestion } from '../messages.js'
import type { Setting } from '../layers/setting.js'

const unknownPart = (kind: string, { value, label }: Setting, names: readonly string[]) => {
  const name = String(value)
  if (names.includes(name)) return []
  const known = names.join(', ')
  return [`${label}: unknown ${kind} ${name} (known: ${known})${suggestion(name, names)}`]
}

/**
 * Problems with the choice of a built-in policy and its options. Plugins' policies are known only
 * once the plugins are loaded.
 */
export const checkPolicy = (
  { batching, order, policy }: PolicyResolution,
  options: Setting,
  slo: Setting,
): readonly string[] => {
  if (batching.value === null) {
    return [
      `${policy.label}: unknown policy ${String(policy.value)}; expected batching+order, such as ` +
        `${defaultPolicyName}, or the policy of a loaded plugin`,
    ]
  }
  const unknown = [
    ...unknownPart('batching', batching, batchingNames),
    ...unknownPart('order', order, orderNames),
  ]
  if (unknown.length > 0) return unknown
  const given = options.value as Readonly<Record<string, unknown>>
  const limits = slo.value as Readonly<Record<string, unknown>>
  const name = String(policy.value)
  const problems = problemsOf(options, name, given)
  return problems.length > 0
    ? problems
    : problemsOf(slo, name, policyOptionsOf({ policy_options: given, slo: limits }))
}

const problemsOf = (
  { label }: Setting,
  policy: string,
  options: Readonly<Record<string, unknown>>,
): readonly string[] => {
  try {
    createPolicy(policy, options)
    return []
  } catch (error) {
    if (!CllmError.isInstance(error)) throw error
    return [`${label}: ${error.message}`]
  }
}
