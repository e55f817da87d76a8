/**
 * The message bus of a cluster: mailboxes, and a list of members. Envelopes of one sender to one mailbox
 * arrive in order, but may arrive twice or be lost; `Link` makes a reliable channel of that.
 */
export interface ClusterBus {
  /** Whether the bus answers now: while it does not, the silence of others does not mean that they are gone. */
  readonly isReachable: boolean
  /** Puts an envelope into a mailbox, now or as soon as possible. */
  send(mailbox: string, envelope: string): void
  /**
   * Tries all operations that a process needs for its mailbox, before it is opened, so that a server that refuses one
   * is noticed at the start. Buses need not have this.
   *
   * @throws `cluster_unavailable` with the server's message
   */
  check?(mailbox: string): Promise<void>
  /** Opens the mailbox of this process, and delivers its envelopes from the first one on. */
  listen(mailbox: string, onEnvelope: (envelope: string) => void): void
  /**
   * Adds a member with its record to the list, for `ttlMs` milliseconds.
   *
   * @throws `cluster_unavailable`
   */
  announce(id: string, record: string, ttlMs: number): Promise<void>
  /**
   * Like {@link announce}, but only if the id is free; resolves with whether it was. Buses need not have this.
   *
   * @throws `cluster_unavailable`
   */
  claim?(id: string, record: string, ttlMs: number): Promise<boolean>
  /** Removes a member from the list. Fails silently, as its entry expires anyway. */
  withdraw(id: string): Promise<void>
  /**
   * The records of the listed members, by id.
   *
   * @param isKnown tells the members whose records, which may be long, are not fetched. Default: none
   * @throws `cluster_unavailable`
   */
  members(isKnown?: (id: string) => boolean): Promise<ReadonlyMap<string, string>>
  /**
   * Shows others that this process is alive, for as long as its connection is open. Buses need not have this:
   * without it, the end of a process is only noticed by its silence.
   */
  appear?(id: string): Promise<void>
  /** The ids whose process is alive, of those that have appeared; undefined while unknown. */
  present?(ids: readonly string[]): Promise<ReadonlySet<string> | undefined>
  /** Closes its connections; envelopes that were not sent are lost. */
  close(): Promise<void>
}

/** The mailbox of a worker. */
export const workerMailbox = (worker: string): string => `worker:${worker}`

/** The mailbox of a front. */
export const frontMailbox = (front: string): string => `front:${front}`
