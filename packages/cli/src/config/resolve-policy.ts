import type { Setting, Settings } from './layers.js'
import type { CllmConfig } from './options/schema.js'

interface Choice {
  readonly batching?: Setting | undefined
  readonly order?: Setting | undefined
  /** The name of a plugin's policy, which is not a batching and an order. */
  readonly policy?: Setting | undefined
}

/** The two halves of the short form `--policy batching+order`. */
const split = (policy: Setting): Choice => {
  const [batching, order, ...more] = String(policy.value).split('+')
  if (!batching || !order || more.length > 0) return { policy }
  return {
    batching: { ...policy, path: 'scheduler.batching', value: batching },
    order: { ...policy, path: 'scheduler.order', value: order },
  }
}

const contradiction = (policy: Setting, said: Setting | undefined, half: Setting | undefined) =>
  half === undefined || half.value === said?.value
    ? []
    : [`${policy.label} ${String(policy.value)} contradicts ${half.label} ${String(half.value)}`]

/**
 * Resolves the policy that the layers, lowest first, set. A layer with a policy overrides the
 * batching and order of the layers below; a layer with a batching or an order overrides a plugin's
 * policy. A layer that contradicts itself is a problem.
 */
export const resolvePolicy = (layers: readonly (readonly Setting[])[], defaults: Settings) => {
  const problems: string[] = []
  let choice: Choice = {}
  for (const layer of layers) {
    const [policy, batching, order] = ['policy', 'batching', 'order'].map((name) =>
      layer.find(({ path, value }) => path === `scheduler.${name}` && value !== null),
    )
    if (policy !== undefined) {
      choice = split(policy)
      problems.push(
        ...contradiction(policy, choice.batching, batching),
        ...contradiction(policy, choice.order, order),
      )
    } else if (batching !== undefined || order !== undefined) {
      choice = { batching: batching ?? choice.batching, order: order ?? choice.order }
    }
  }
  if (choice.policy !== undefined) {
    const { policy } = choice
    const none = (path: string): Setting => ({ ...policy, path, value: null })
    return { settings: [none('scheduler.batching'), none('scheduler.order'), policy], problems }
  }
  const { batching = defaults.get('scheduler.batching')! } = choice
  const { order = defaults.get('scheduler.order')! } = choice
  const source =
    batching.source === order.source ? batching.source : 'scheduler.batching and scheduler.order'
  const given = [batching, order].filter((half) => half.source !== 'default')
  const labels = (given.length > 0 ? given : [batching]).map(({ label }) => label)
  const value = `${String(batching.value)}+${String(order.value)}`
  const label = [...new Set(labels)].join(' and ')
  return {
    settings: [batching, order, { path: 'scheduler.policy', value, source, label }],
    problems,
  }
}

/** The options of the policy that a server starts with: `scheduler.slo` is the option `slo`. */
export function policyOptionsOf(
  scheduler: Pick<CllmConfig['scheduler'], 'policy_options' | 'slo'>,
): Readonly<Record<string, unknown>> {
  const { policy_options: options, slo } = scheduler
  return Object.keys(slo).length === 0 ? options : { slo, ...options }
}

/**
 * Resolves which models the layers, lowest first, serve: one model, or several by name. A layer
 * with either setting overrides both settings of the layers below; if a layer has both, the models
 * by name win.
 */
export const resolveModels = (layers: readonly (readonly Setting[])[], defaults: Settings) => {
  const none = defaults.get('models.served')!
  const problems: string[] = []
  let served = none
  for (const layer of layers) {
    const one = layer.find(({ path }) => path === 'model.spec')
    const several = layer.find(
      ({ path, value }) => path === 'models.served' && Object.keys(value as object).length > 0,
    )
    // Only flags can have the same label for both; a file from `cllm config` has both settings.
    if (one !== undefined && one.label === several?.label) {
      problems.push(
        `${one.label}: expected NAME=SPEC for each of several models, got ${String(one.value)}`,
      )
    }
    if (several !== undefined) served = several
    else if (one !== undefined) served = none
  }
  return { settings: [served], problems }
}
