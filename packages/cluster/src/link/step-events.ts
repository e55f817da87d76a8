import type { RequestEvent } from '@cllm/core'
import { isObject } from './is-object.js'

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

const types: ReadonlySet<unknown> = new Set(['start', 'progress', 'token', 'end', 'error'])

/** What is wrong with a list that is to be {@link StepEvents}; undefined: nothing. */
export function wrongWithEvents(events: readonly unknown[]): string | undefined {
  for (let index = 0; index < events.length;) {
    if (typeof events[index++] !== 'number') return `events: no placement at ${index - 1}`
    const next = events[index++]
    if (typeof next === 'number') {
      if (typeof events[index++] !== 'string') return `events: no text at ${index - 1}`
    } else if (!isEvent(next)) return `events: no event at ${index - 1}`
  }
  return undefined
}

function isEvent(value: unknown): value is RequestEvent {
  if (typeof value !== 'object' || value === null) return false
  const { type, error, text, token, usage, timings } = value as Record<string, unknown>
  if (!types.has(type)) return false
  if (type === 'error') return isObject(error) && typeof error['code'] === 'string'
  if (type === 'token') return typeof token === 'number' && typeof text === 'string'
  if (type === 'end') return typeof text === 'string' && isObject(usage) && isObject(timings)
  return true
}
