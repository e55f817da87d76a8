import { CllmError, type SchedulerPolicy } from '@cllm/core'
import { z } from 'zod'
import type { Batching } from './batching.js'
import { adaptive } from './batchings/adaptive.js'
import { chunked } from './batchings/chunked.js'
import { continuous } from './batchings/continuous.js'
import { composePolicy } from './compose-policy.js'
import type { Order } from './order.js'
import { fcfs } from './orders/fcfs.js'

interface Part<Made> {
  readonly options: z.ZodRawShape
  readonly create: (options: Readonly<Record<string, unknown>>) => Made
}

function part<Shape extends z.ZodRawShape, Made>(
  options: Shape,
  create: (options: z.output<z.ZodObject<Shape>>) => Made,
): Part<Made> {
  const schema = z.object(options)
  return { options, create: (values) => create(schema.parse(values)) }
}

const batchings = new Map<string, Part<Batching>>([
  ['continuous', part({}, continuous)],
  ['chunked', part({ tokenBudget: z.int().min(1).default(256) }, chunked)],
  [
    'adaptive',
    part(
      { targetStepMs: z.union([z.literal('auto'), z.number().positive()]).default('auto') },
      adaptive,
    ),
  ],
])

const orders = new Map<string, Part<Order>>([['fcfs', part({}, fcfs)]])

/** The policy of a server that names none. */
export const defaultPolicyName = 'adaptive+fcfs'

/** Makes the policy that takes over from one that fails: the plainest that never starves anybody. */
export const fallbackPolicy = (): SchedulerPolicy => createPolicy('chunked+fcfs')

/** The built-in policies, `batching+order`: every batching with every order. */
export const policyNames: readonly string[] = [...batchings.keys()].flatMap((batching) =>
  [...orders.keys()].map((order) => `${batching}+${order}`),
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
    const expected = `expected one of ${policyNames.join(', ')}`
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
  throw new CllmError('invalid_policy', `Wrong options for "${name}": ${problems} (${known})`, {
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
