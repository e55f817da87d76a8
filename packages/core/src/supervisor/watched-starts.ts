import type { StartEngine } from './engine-link.js'

/** The same engines; `onChange` is called after each one is ready, and after each one is gone. */
export function watchedStarts(start: StartEngine, onChange: () => void): StartEngine {
  return () => {
    const { channel, kill } = start()
    return {
      kill,
      channel: {
        send: (message) => channel.send(message),
        onMessage: (listener) =>
          channel.onMessage((message) => {
            listener(message)
            if (message.type === 'ready') onChange()
          }),
        onClose: (listener) =>
          channel.onClose((reason) => {
            listener(reason)
            onChange()
          }),
      },
    }
  }
}
