import type { GenerateEvent } from '@cllm/core'
import type { Generation } from './generation.js'

/** An event of one of several generations. */
export interface MergedEvent {
  /** Which of them. */
  readonly index: number
  readonly event: Exclude<GenerateEvent, { type: 'start' }>
}

type Arrival = { readonly index: number } & (
  | { readonly result: IteratorResult<MergedEvent['event'], unknown> }
  | { readonly error: unknown }
)

/**
 * Merges the streams of several generations, in the order in which their events come. What an event
 * costs does not grow with their number: `Promise.race` would leave a reaction with each one that waits.
 *
 * @throws what the first of them throws that fails; the others are then left
 */
export async function* mergeGenerations(
  generations: readonly Generation[],
): AsyncGenerator<MergedEvent> {
  if (generations.length === 1) {
    for await (const event of generations[0]!.events) yield { index: 0, event }
    return
  }
  const iterators = generations.map(({ events }) => events[Symbol.asyncIterator]())
  const arrived: Arrival[] = []
  let wake: (() => void) | undefined
  const arrive = (arrival: Arrival): void => {
    arrived.push(arrival)
    wake?.()
  }
  const ask = (index: number): void => {
    iterators[index]!.next().then(
      (result) => arrive({ index, result }),
      (error: unknown) => arrive({ index, error }),
    )
  }
  for (const index of iterators.keys()) ask(index)
  try {
    for (let open = iterators.length; open > 0;) {
      // at most one of each is here, so that the array stays short
      const next = arrived.shift()
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      } else if ('error' in next) throw next.error
      else if (next.result.done === true) open--
      else {
        ask(next.index)
        yield { index: next.index, event: next.result.value }
      }
    }
  } finally {
    for (const iterator of iterators) void iterator.return?.()?.catch(() => {})
  }
}
