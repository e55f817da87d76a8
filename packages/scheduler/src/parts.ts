import { z } from 'zod'
import type { Batching } from './batching.js'
import { adaptive } from './batchings/adaptive.js'
import { chunked } from './batchings/chunked.js'
import { continuous } from './batchings/continuous.js'
import { staticBatching } from './batchings/static.js'
import { window } from './batchings/window.js'
import { patienceShape } from './bounded-overtaking.js'
import type { Order } from './order.js'
import { dlpm } from './orders/dlpm.js'
import { edf } from './orders/edf.js'
import { fair } from './orders/fair.js'
import { fcfs } from './orders/fcfs.js'
import { hrrn } from './orders/hrrn.js'
import { lpm } from './orders/lpm.js'
import { mlfq } from './orders/mlfq.js'
import { priority } from './orders/priority.js'
import { random } from './orders/random.js'
import { sjf } from './orders/sjf.js'

/** A batching or an order by name: its options, and how it is made of them. */
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

const positive = z.number().positive()
const milliseconds = z.number().min(0)
const tenantShape = {
  inputWeight: positive.default(1),
  outputWeight: positive.default(2),
  weights: z.record(z.string(), positive).default({}),
}

/** The built-in batchings by name. */
export const batchings = new Map<string, Part<Batching>>([
  [
    'static',
    part(
      { groupSize: z.int().min(1).default(8), waitMs: milliseconds.default(100) },
      staticBatching,
    ),
  ],
  [
    'window',
    part(
      {
        windowMs: milliseconds.default(50),
        minRequests: z.int().min(1).default(8),
        regroupBelow: z.number().min(0).max(1).default(0.5),
      },
      window,
    ),
  ],
  ['continuous', part({}, continuous)],
  ['chunked', part({ tokenBudget: z.int().min(1).default(256) }, chunked)],
  ['adaptive', part({ targetStepMs: z.literal('auto').or(positive).default('auto') }, adaptive)],
])

/** The built-in orders by name. */
export const orders = new Map<string, Part<Order>>([
  ['fcfs', part({}, fcfs)],
  [
    'priority',
    part(
      {
        agingTokens: positive.default(4096),
        preemptionThreshold: positive.nullable().default(10),
        ...patienceShape,
      },
      priority,
    ),
  ],
  ['sjf', part({ aging: z.number().min(0).default(0.05), ...patienceShape }, sjf)],
  ['hrrn', part(patienceShape, hrrn)],
  ['lpm', part(patienceShape, lpm)],
  ['fair', part({ ...tenantShape, ...patienceShape }, fair)],
  ['dlpm', part({ quantum: positive.default(2048), ...tenantShape, ...patienceShape }, dlpm)],
  ['edf', part({ refuse: z.boolean().default(true), ...patienceShape }, edf)],
  [
    'mlfq',
    part(
      {
        quantum: positive.default(256),
        levels: z.int().min(2).max(16).default(5),
        preemptionLevels: z.int().min(1).nullable().default(2),
        ...patienceShape,
      },
      mlfq,
    ),
  ],
  ['random', part({ seed: z.int().default(1), ...patienceShape }, random)],
])
