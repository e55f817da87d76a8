import {
  batchPriority,
  type Clock,
  type EngineClient,
  type EngineDirectory,
  type GenerateEvent,
  type GenerateRequest,
  type Random,
  type Services,
} from '@cllm/core'
import { InFlightRequest, overriding, withSeed } from '@cllm/host'
import { goesOn } from '../../routes/koa-context.js'
import type { Throttle } from './batch-throttle.js'
import { createHash } from 'node:crypto'

/**
 * Engines for batches, whose requests are computed while the throttle allows it. Otherwise a request leaves the engine
 * within a step and is continued later after its last token: with the same seed it generates the same tokens as without
 * the interruption.
 *
 * @param services - `random` draws the seeds of requests without one
 */
export function yieldingEngines(
  directory: EngineDirectory,
  throttle: Throttle,
  services: Pick<Services, 'clock' | 'random'>,
): EngineDirectory {
  const urgency = { priority: batchPriority }
  return overriding(directory, {
    open(id, opened) {
      const client = directory.open(id, { ...opened, urgency })
      return overriding(client, {
        async embed(input, options) {
          await throttle.released(options?.signal ?? new AbortController().signal)
          return await client.embed(input, options)
        },
        submit(request, options) {
          const fixed = withSeed({ ...request, ...urgency }, services.random)
          const signal = options?.signal ?? new AbortController().signal
          return yielding(client, fixed, { throttle, clock: services.clock, signal })
        },
      })
    },
  })
}

async function* yielding(
  client: EngineClient,
  request: GenerateRequest,
  { throttle, clock, signal }: { throttle: Throttle; clock: Clock; signal: AbortSignal },
): AsyncGenerator<GenerateEvent, undefined, undefined> {
  const entry = new InFlightRequest(request.id ?? '', request, clock.now())
  for (let parts = 0; ; parts++) {
    const heldSince = clock.now()
    // The observers of an earlier part know that the request goes on: it is submitted even if it was cancelled since, so
    // that they are told its end.
    await throttle.released(signal).catch((error: unknown) => {
      if (parts === 0) throw error
    })
    entry.postpone(clock.now() - heldSince)
    const leaving = new AbortController()
    const stopWatching = throttle.onThrottled(() => leaving.abort(goesOn))
    const either = { signal: AbortSignal.any([signal, leaving.signal]) }
    try {
      for await (const event of client.submit(entry.continuedAt(clock.now()), either)) {
        if (entry.take(event, clock.now())) yield event
      }
      return
    } catch (error) {
      if (!leaving.signal.aborted || signal.aborted) throw error
    } finally {
      stopWatching()
    }
  }
}

/** Draws seeds for a line's requests without one: the same each time, so that a repeated line gets the same answer. */
export function lineSeeds(batch: string, line: number): Random {
  let next = createHash('sha256').update(`${batch}:${line}`).digest().readUInt32LE()
  return { uint32: () => next++ >>> 0 }
}
