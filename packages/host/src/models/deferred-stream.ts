import type { GenerateEvent } from '@cllm/core'

type Events = AsyncIterableIterator<GenerateEvent>

/** Events of a request that waits to be submitted. `leave` is called when its consumer leaves first. */
export function deferredStream(starting: Promise<Events>, leave: () => void): Events {
  let isOver = false
  // The failure is thrown to the reader of the stream.
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
