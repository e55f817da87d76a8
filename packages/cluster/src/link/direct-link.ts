import type { NamedChannel } from './link.js'

/** One end of a channel within a process. */
class DirectLink<Out, In> implements NamedChannel<Out, In> {
  #other: DirectLink<In, Out> | undefined
  #closed: string | undefined
  #onMessage: (message: In) => void = () => {}
  #onClose: (reason: string) => void = () => {}

  constructor(
    readonly id: string,
    other?: DirectLink<In, Out>,
  ) {
    this.#other = other
    if (other !== undefined) other.#other = this
  }

  send(message: Out): boolean {
    const other = this.#other
    // Not at once: who sends may be in the middle of a change.
    queueMicrotask(() => other?.receive(message))
    return true
  }

  /** The other end sent this. */
  receive(message: In): void {
    if (this.#closed === undefined) this.#onMessage(message)
  }

  onMessage(listener: (message: In) => void): void {
    this.#onMessage = listener
  }

  onClose(listener: (reason: string) => void): void {
    this.#onClose = listener
    if (this.#closed !== undefined) listener(this.#closed)
  }

  close(reason: string): void {
    this.end(reason)
    this.#other?.end('the other side closed it')
  }

  /** It is closed. */
  end(reason: string): void {
    if (this.#closed !== undefined) return
    this.#closed = reason
    this.#onClose(reason)
  }
}

/** The two ends of a channel within a process, for a front and a worker of the same one. */
export function directLinks<Out, In>(
  id: string,
): readonly [NamedChannel<Out, In>, NamedChannel<In, Out>] {
  const one = new DirectLink<Out, In>(id)
  return [one, new DirectLink<In, Out>(id, one)]
}
