import assert from 'node:assert/strict'
import type { Batching, Order, SequenceView, WaitingView } from '@cllm/core'

/** The same order, which throws an `AssertionError` when it breaks the rules of `Order`. */
export function checkedOrder(order: Order): Order {
  return {
    next: (state) => namedOnce(order.next(state), state.waiting),
    reject: (state) => order.reject?.(state) ?? [],
    preempt: (state) => order.preempt?.(state) ?? [],
    victim: (state) => order.victim?.(state),
    onServedElsewhere: (services) => order.onServedElsewhere?.(services),
    observe: (event) => order.observe?.(event),
  }
}

function* namedOnce(
  requests: Iterable<SequenceView>,
  waiting: WaitingView,
): Iterable<SequenceView> {
  const named = new Set<string>()
  for (const request of requests) {
    const { id } = request
    assert(waiting.has(id), `next names waiting requests only, instead got "${id}"`)
    assert(!named.has(id), `next names "${id}" twice`)
    named.add(id)
    yield request
  }
  const { size } = waiting
  assert(named.size === size, `next ends after ${named.size} of ${size} waiting requests`)
}

/** The same batching, which throws an `AssertionError` when it breaks the rules of `Batching`. */
export function checkedBatching(batching: Batching): Batching {
  return {
    inGroups: batching.inGroups === true,
    plan(state, next) {
      const read: string[] = []
      const step = batching.plan(state, recorded(next, read))
      const { admit } = step
      const [other] = Object.keys(step).filter((key) => !decided.includes(key))
      assert(other === undefined, `a step is ${decided.join(', ')}, instead got "${other}"`)
      assert.deepEqual(admit, read.slice(0, admit.length), 'requests are admitted as next has them')
      const most = admit.length + 1
      assert(read.length <= most, `${read.length} requests of next are read, at most ${most}`)
      return step
    },
    observe: (event) => batching.observe?.(event),
  }
}

/** What a batching decides. */
const decided = ['admit', 'run', 'wakeAt']

function* recorded(requests: Iterable<SequenceView>, read: string[]): Iterable<SequenceView> {
  for (const request of requests) {
    read.push(request.id)
    yield request
  }
}
