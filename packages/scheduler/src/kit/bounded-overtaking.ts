import type {
  BackendLimits,
  ObjectSchema,
  Order,
  OrderDefinition,
  SchedulerState,
  SequenceView,
} from '@cllm/core'
import { z } from 'zod'
import { TokenClock, longestWaiting } from './ranked-orders.js'

/** A waiting request is overdue after this many computed tokens: some seconds on a GPU, half a minute on a few cores. */
export const defaultPatience = 16_384

/** The option of every order that lets later requests go first. */
export const patienceOption = {
  patience: z
    .int()
    .min(0)
    .default(defaultPatience)
    .describe('Tokens computed, of all requests, after which a waiting one is overdue.'),
}

/** Overdue requests get one in this many tokens while the order prefers others. */
const overdueShare = 8

/**
 * Keeps an order from starving requests. A request that waits while `patience` tokens are computed is
 * overdue. The overdue request that arrived first goes before all others, and then the order decides
 * until seven times its tokens were computed. So an order keeps seven eighths of the machine under any
 * overload, and overtaking is bounded: see {@link overtakingBound}.
 */
export function boundedOvertaking(order: Order, patience: number = defaultPatience): Order {
  const clock = new TokenClock()
  /** The overdue request that the last plan put first. */
  let favoured: SequenceView | undefined
  /** For how many tokens the order decides after that request is admitted. */
  let price = 0
  /** When the next overdue request may be put first, on the token clock. */
  let nextTurn = 0
  const overdue = ({ waiting }: SchedulerState): SequenceView | undefined => {
    const first = clock.now < nextTurn ? undefined : longestWaiting(waiting)
    return first !== undefined && clock.age(first) >= patience ? first : undefined
  }
  return {
    *next(state) {
      const first = (favoured = overdue(state))
      if (first !== undefined) {
        const most = first.promptTokens + first.maxTokens
        price = overdueShare * Math.min(most, state.limits.contextSize)
        yield first
      }
      for (const request of order.next(state)) if (request !== first) yield request
    },
    reject: (state) => order.reject?.(state) ?? [],
    preempt: (state) => order.preempt?.(state) ?? [],
    arrivalRank: (request) => order.arrivalRank?.(request) ?? 0,
    victim: (state) => order.victim?.(state),
    // Slots are not held back from an overdue request.
    hold(state) {
      const held = order.hold?.(state) ?? 0
      return held === 0 || overdue(state) === undefined ? held : Math.min(held, state.freeSlots - 1)
    },
    observe(event) {
      if (event.type === 'admitted' && event.request === favoured) nextTurn = clock.now + price
      clock.observe(event)
      order.observe?.(event)
    },
    onServedElsewhere: (services) => order.onServedElsewhere?.(services),
  }
}

/** The values of options. */
export type OptionValues<Options extends z.ZodRawShape> = z.output<z.ZodObject<Options>>

/** The values of an order's own options, and of its `patience`. */
export type Bounded<Own extends z.ZodRawShape> = OptionValues<Own> &
  OptionValues<typeof patienceOption>

/** Defines an order with bounded overtaking: adds the option `patience` behind its own options. */
export function defineBoundedOrder<Own extends z.ZodRawShape = {}>(
  order: Omit<OrderDefinition<OptionValues<Own>>, 'options'> & { readonly options?: Own },
): OrderDefinition<Bounded<Own>> {
  const options: unknown = z.object({ ...order.options, ...patienceOption })
  return {
    ...order,
    options: options as ObjectSchema<Bounded<Own>>,
    create: (values) => boundedOvertaking(order.create(values), values.patience),
  }
}

/**
 * The bound of {@link boundedOvertaking}: the most tokens of later requests that are computed before a request is
 * admitted that found `ahead` waiting requests at its arrival. It is overdue after `patience` tokens and a step. Then each
 * request ahead, and finally itself, is admitted after at most eight times the tokens of the one before, plus the tokens
 * that the slots held at that time.
 */
export function overtakingBound(
  ahead: number,
  { slots, contextSize, batchSize }: BackendLimits,
  patience: number = defaultPatience,
): number {
  return patience + batchSize + (ahead + 1) * (overdueShare + slots) * contextSize
}
