/**
 * What a cluster runs on: mailboxes, and a list of who is there. Envelopes of one sender to one mailbox
 * arrive in their order, but one may come twice or not at all; `Link` makes a channel of that.
 */
export interface ClusterBus {
  /** Whether it answers now: while it does not, silence of others says nothing. */
  readonly isReachable: boolean
  /** Puts an envelope into a mailbox, now or as soon as it can. */
  send(mailbox: string, envelope: string): void
  /**
   * Does once what a process needs for its mailbox, before it is opened, so that a server that refuses any of it is
   * known at the start. Buses need not have this.
   *
   * @throws `cluster_unavailable` with what the server says
   */
  check?(mailbox: string): Promise<void>
  /** Opens the mailbox of this process, whose envelopes are handed over from the first one on. */
  listen(mailbox: string, onEnvelope: (envelope: string) => void): void
  /**
   * Lists a member with its record, for this many milliseconds.
   *
   * @throws `cluster_unavailable`
   */
  announce(id: string, record: string, ttlMs: number): Promise<void>
  /**
   * Takes an id that nobody has, as {@link announce} does; resolves with whether it is free. Buses need not have this.
   *
   * @throws `cluster_unavailable`
   */
  claim?(id: string, record: string, ttlMs: number): Promise<boolean>
  /** Takes a member off the list. Fails silently: its time runs out anyway. */
  withdraw(id: string): Promise<void>
  /**
   * The records of the members that are listed, by their ids.
   *
   * @param isKnown whose records, which may be long, are not asked for. Default: nobody's
   * @throws `cluster_unavailable`
   */
  members(isKnown?: (id: string) => boolean): Promise<ReadonlyMap<string, string>>
  /**
   * Shows others that this process lives, for as long as its connection does. Buses need not have this:
   * without it, silence alone tells.
   */
  appear?(id: string): Promise<void>
  /** Those that appeared and live; undefined where that is not known now. */
  present?(ids: readonly string[]): Promise<ReadonlySet<string> | undefined>
  /** Closes its connections; envelopes that were not sent are lost. */
  close(): Promise<void>
}

/** The mailbox of a worker. */
export const workerMailbox = (worker: string): string => `worker:${worker}`

/** The mailbox of a front. */
export const frontMailbox = (front: string): string => `front:${front}`
