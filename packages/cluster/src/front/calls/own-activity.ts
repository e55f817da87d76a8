import type { EngineActivity } from '@cllm/core'

/** What a worker's engine did, with a front's requests under the ids that they have there. */
export function ownActivity(
  activity: EngineActivity,
  toOwn: (id: string) => string,
): EngineActivity {
  const rename = <T extends { readonly id: string }>(one: T): T => ({ ...one, id: toOwn(one.id) })
  return {
    ...activity,
    slots: activity.slots.map(({ request, ...slot }) => ({
      ...slot,
      request: request === undefined ? undefined : toOwn(request),
    })),
    queue: activity.queue.map(rename),
    frames: activity.frames.map((frame) => ({
      ...frame,
      spans: frame.spans.map(rename),
      ended: frame.ended.map(rename),
    })),
  }
}

/** The id here of a request that a worker has under the name of a link; of another front's that which it has there. */
export function ownId(link: string, ids: ReadonlyMap<string, string>): (id: string) => string {
  const prefix = `${link}/`
  return (id) => (id.startsWith(prefix) ? (ids.get(id.slice(prefix.length)) ?? id) : id)
}
