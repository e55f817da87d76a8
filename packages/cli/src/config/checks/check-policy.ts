import { CllmError } from '@cllm/core'
import { batchingNames, createPolicy, defaultPolicyName, orderNames } from '@cllm/scheduler'
import { suggestion } from '../suggestion.js'
import type { PolicyResolution } from '../resolve-policy.js'
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
  try {
    createPolicy(String(policy.value), options.value as Readonly<Record<string, unknown>>)
    return []
  } catch (error) {
    if (!CllmError.isInstance(error)) throw error
    return [`${options.label}: ${error.message}`]
  }
}
