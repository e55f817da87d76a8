import { CllmError, nearestName, type SchedulerPolicy } from '@cllm/core'
import { z } from 'zod'
import { composePolicy } from './compose-policy.js'
import { batchings, orders } from './parts.js'

/** The policy of a server that names none. */
export const defaultPolicyName = 'adaptive+fcfs'

/** Makes the policy that takes over from one that fails: the plainest that never starves anybody. */
export const fallbackPolicy = (): SchedulerPolicy => createPolicy('chunked+fcfs')

/** The built-in batchings. */
export const batchingNames: readonly string[] = [...batchings.keys()]

/** The built-in orders. */
export const orderNames: readonly string[] = [...orders.keys()]

/** The built-in policies, `batching+order`: every batching with every order. */
export const policyNames: readonly string[] = batchingNames.flatMap((batching) =>
  orderNames.map((order) => `${batching}+${order}`),
)

/**
 * Makes a built-in policy by its name.
 *
 * @param name - `batching+order`, one of {@link policyNames}
 * @param options - those of the batching and the order together, such as `{ tokenBudget: 128 }`
 * @throws CllmError `invalid_policy` for an unknown name, an unknown option or a wrong value; its
 *   `details.valid` lists the names that would do
 */
export function createPolicy(
  name: string = defaultPolicyName,
  options: Readonly<Record<string, unknown>> = {},
): SchedulerPolicy {
  const [batchingName = '', orderName = '', ...rest] = name.split('+')
  const batching = batchings.get(batchingName)
  const order = orders.get(orderName)
  if (batching === undefined || order === undefined || rest.length > 0) {
    const expected = `expected batching+order, such as ${defaultPolicyName}, of the batchings ${batchingNames.join(', ')} and the orders ${orderNames.join(', ')}`
    throw new CllmError('invalid_policy', `There is no policy "${name}": ${expected}`, {
      details: { policy: name, valid: policyNames },
    })
  }
  const shape = { ...batching.options, ...order.options }
  checkOptions(name, shape, options)
  return composePolicy(
    batching.create(pick(options, batching.options)),
    order.create(pick(options, order.options)),
  )
}

function checkOptions(name: string, shape: z.ZodRawShape, options: unknown): void {
  const result = z.strictObject(shape).safeParse(options)
  if (result.success) return
  const valid = Object.keys(shape)
  const known = valid.length === 0 ? 'it has no options' : `its options are ${valid.join(', ')}`
  const problems = result.error.issues
    .map(({ path, message }) => [...path, message].join(': '))
    .join('; ')
  const unknown = Object.keys(options ?? {}).find((option) => !valid.includes(option))
  const nearest = unknown === undefined ? undefined : nearestName(unknown, valid)
  const meant = nearest === undefined ? '' : `; did you mean "${nearest}"?`
  const message = `Wrong options for "${name}": ${problems} (${known})${meant}`
  throw new CllmError('invalid_policy', message, {
    details: { policy: name, valid },
    cause: result.error,
  })
}

function pick(
  options: Readonly<Record<string, unknown>>,
  shape: z.ZodRawShape,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([key]) => key in shape))
}
