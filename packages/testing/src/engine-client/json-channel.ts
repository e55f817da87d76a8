import type { Channel } from '@cllm/host'

/** Both ends of a channel in this process that turns every message into JSON and back. */
export function jsonChannel<Out, In>(): [Channel<Out, In>, Channel<In, Out>] {
  const listeners: ((message: never) => void)[] = []
  const end = <Sent, Received>(own: 0 | 1): Channel<Sent, Received> => ({
    send(message) {
      const json = JSON.stringify(message)
      queueMicrotask(() => listeners[1 - own]?.(JSON.parse(json) as never))
    },
    onMessage: (listener) => void (listeners[own] = listener),
    onClose() {},
  })
  return [end(0), end(1)]
}
