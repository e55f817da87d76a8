import type { RequestEvent } from '@cllm/core'

/**
 * The events of a step in a row, without names, as most of what a cluster says is tokens: for each the number of its
 * placement, then for a plain token its id and its text, and for all others the event.
 */
export type StepEvents = readonly (number | string | RequestEvent)[]

/** Appends an event. */
export function addEvent(
  events: (number | string | RequestEvent)[],
  placement: number,
  event: RequestEvent,
): void {
  const isPlain =
    event.type === 'token' && event.logprobs === undefined && event.promptLogprobs === undefined
  if (isPlain) events.push(placement, event.token, event.text)
  else events.push(placement, event)
}

/** Calls back with each event, in order. */
export function forEachEvent(
  events: StepEvents,
  listener: (placement: number, event: RequestEvent) => void,
): void {
  for (let index = 0; index < events.length;) {
    const placement = events[index++] as number
    const next = events[index++] as number | RequestEvent
    if (typeof next !== 'number') listener(placement, next)
    else listener(placement, { type: 'token', token: next, text: events[index++] as string })
  }
}
