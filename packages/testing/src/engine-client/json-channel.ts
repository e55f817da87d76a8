import type { Channel } from '@cllm/host'

/** Both ends of a channel in this process that turns every message into JSON and back. */
export function jsonChannel<Out, In>(): [Channel<Out, In>, Channel<In, Out>] {
  let toHere: (message: In) => void = () => {}
  let toThere: (message: Out) => void = () => {}
  const deliver = (message: unknown, to: (message: unknown) => void): void => {
    const json = JSON.stringify(message)
    queueMicrotask(() => to(JSON.parse(json)))
  }
  const here: Channel<Out, In> = {
    send: (message) => deliver(message, (copy) => toThere(copy as Out)),
    onMessage: (listener) => (toHere = listener),
    onClose() {},
  }
  const there: Channel<In, Out> = {
    send: (message) => deliver(message, (copy) => toHere(copy as In)),
    onMessage: (listener) => (toThere = listener),
    onClose() {},
  }
  return [here, there]
}
