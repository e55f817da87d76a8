import { LinkEnd, type NamedChannel } from './link.js'

/** One end of a channel within a process. */
class DirectLink<Out, In> extends LinkEnd<In> implements NamedChannel<Out, In> {
  #other: DirectLink<In, Out> | undefined

  constructor(
    readonly id: string,
    other?: DirectLink<In, Out>,
  ) {
    super()
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
    if (this.closed === undefined) this.tell(message)
  }

  close(reason: string): void {
    this.end(reason)
    this.#other?.end('the other side closed it')
  }

  /** It is closed. */
  end(reason: string): void {
    if (this.closed === undefined) this.tellClosed(reason)
  }
}

/** The two ends of a channel within a process, for a front and a worker of the same one. */
export function directLinks<Out, In>(
  id: string,
): readonly [NamedChannel<Out, In>, NamedChannel<In, Out>] {
  const one = new DirectLink<Out, In>(id)
  return [one, new DirectLink<In, Out>(id, one)]
}
