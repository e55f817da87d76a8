import type { SimulationResult } from '../simulate/simulation-result.js'

/** The configuration of `cllm serve` with a policy, in YAML. */
export function policyYaml(
  { policy, policyOptions, slots, contextSize, kvTokens, batchSize }: SimulationResult,
  plugins: readonly string[],
): string {
  const options = Object.entries(policyOptions).map(([name, value]) => {
    return `    ${name}: ${JSON.stringify(value)}\n`
  })
  return [
    ...(plugins.length > 0 ? ['plugins:\n'] : []),
    ...plugins.map((use) => `  - ${JSON.stringify(use)}\n`),
    `scheduler:\n  policy: ${policy}\n`,
    ...(options.length > 0 ? ['  policy_options:\n', ...options] : []),
    `engine:\n  slots: ${slots}\n  ctx_size: ${contextSize}\n  batch_size: ${batchSize}\n`,
    ...(kvTokens === undefined ? [] : [`  kv_tokens: ${kvTokens}\n`]),
  ].join('')
}
