/** The runtime's ways to queue a callback: Node.js and browsers have different ones, and one is enough. */
interface Host {
  readonly process?: { readonly nextTick?: (run: () => void) => void }
  readonly setImmediate?: (run: () => void) => void
  readonly MessageChannel?: typeof MessageChannel
  readonly setTimeout?: (run: () => void) => void
}

/** After this many calls the event loop gets a turn, so that timers, I/O and signals are handled too. */
const callsPerTurn = 256

/**
 * Makes a function that drains the queue of promises: it resolves when every promise has settled that waits
 * for promises alone. Where there is `process.nextTick`, it uses that, and only each 256th call takes a turn
 * of the event loop: after the other calls, callbacks of `setImmediate` and I/O have not run yet. Elsewhere
 * each call takes a turn of the event loop. A turn is `setImmediate` where there is one, else a message to
 * itself (a browser's timers of 0 ms take 4), else a timer.
 */
export function eventLoopTurns(): () => Promise<void> {
  const { process, setImmediate, MessageChannel, setTimeout }: Host = globalThis
  const start = setImmediate ?? (MessageChannel && messagesOf(MessageChannel)) ?? setTimeout
  if (start === undefined) throw new Error('a simulation needs an event loop')
  const { nextTick = start } = process ?? {}
  let calls = 0
  return () => new Promise((resolve) => (++calls % callsPerTurn === 0 ? start : nextTick)(resolve))
}

function messagesOf(Channel: typeof MessageChannel): (run: () => void) => void {
  const { port1, port2 } = new Channel()
  const waiting: (() => void)[] = []
  port1.addEventListener('message', () => waiting.shift()?.())
  port1.start()
  return (run) => {
    waiting.push(run)
    port2.postMessage(undefined)
  }
}
