import type { CllmConfig } from './options/schema.js'

/** The options of the policy that a server starts with: `scheduler.slo` is the option `slo`. */
export function policyOptionsOf({
  policy_options: options,
  slo,
}: Pick<CllmConfig['scheduler'], 'policy_options' | 'slo'>): Readonly<Record<string, unknown>> {
  return Object.keys(slo).length === 0 ? options : { slo, ...options }
}
