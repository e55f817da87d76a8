/** What JavaScript has beyond the language, where this may run: one of them is enough. */
interface Host {
  readonly process?: { readonly nextTick?: (run: () => void) => void }
  readonly setImmediate?: (run: () => void) => void
  readonly MessageChannel?: typeof MessageChannel
  readonly setTimeout?: (run: () => void) => void
}

/** After this many turns the event loop does what else is due, such as telling of a signal. */
const turnsAtOnce = 256

/**
 * Makes the function that ends one turn of the event loop later, when every promise that could settle
 * without a timer has: with `process.nextTick` and now and then `setImmediate` where there are these, else with a
 * message to itself (a browser's timers of 0 ms take 4), else with a timer.
 *
 * @param host where these are looked up; default: the global object
 */
export function eventLoopTurns(host: Host = globalThis): () => Promise<void> {
  const { process, setImmediate, MessageChannel, setTimeout } = host
  const start = setImmediate ?? (MessageChannel && messagesOf(MessageChannel)) ?? setTimeout
  if (start === undefined) throw new Error('a simulation needs an event loop')
  const { nextTick = start } = process ?? {}
  let turns = 0
  return () => new Promise((resolve) => (++turns % turnsAtOnce === 0 ? start : nextTick)(resolve))
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
