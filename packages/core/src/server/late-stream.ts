import type { GenerateEvent } from '../contracts/engine-client.js'

type Events = AsyncIterableIterator<GenerateEvent>

/** Events of a request that waits to be submitted. `leave` is called when its consumer goes first. */
export function lateStream(starting: Promise<Events>, leave: () => void): Events {
  let isOver = false
  // Whoever reads the stream hears of the failure.
  starting.catch(() => {})
  const iterator: Events = {
    [Symbol.asyncIterator]: () => iterator,
    async next() {
      if (isOver) return { done: true, value: undefined }
      try {
        return await (await starting).next()
      } catch (error) {
        if (isOver) return { done: true, value: undefined }
        isOver = true
        throw error
      }
    },
    async return() {
      isOver = true
      leave()
      const events = await starting.catch(() => undefined)
      return (await events?.return?.()) ?? { done: true, value: undefined }
    },
  }
  return iterator
}

/** The same events; `over` is called once, when no more come. */
export function withEnd(events: Events, over: () => void): Events {
  const iterator: Events = {
    [Symbol.asyncIterator]: () => iterator,
    async next() {
      try {
        const result = await events.next()
        if (result.done === true || result.value.type === 'end') over()
        return result
      } catch (error) {
        over()
        throw error
      }
    },
    async return() {
      over()
      return (await events.return?.()) ?? { done: true, value: undefined }
    },
  }
  return iterator
}
