import type { Clock } from '@cllm/core'
import type { ClusterBus } from '@cllm/cluster'

/** What happens to an envelope: milliseconds after which copies of it arrive; none: it is lost. */
export type Fate = (text: string) => readonly number[]

/** A connection to a {@link FakeServer}. */
export interface FakeBus extends ClusterBus {
  /** What it posts from now on, and what it would get, is lost. */
  die(): void
  /** Its process is stopped: what it would get waits. */
  stop(): void
  /** It gets what has waited. */
  goOn(): void
}

/** The server of fake buses: mailboxes and members in memory, on any clock. */
export class FakeServer {
  /** Records of members that were handed over so far. */
  recordsRead = 0
  readonly #mailboxes = new Map<string, (envelope: string) => void>()
  readonly #members = new Map<string, { record: string; until: number }>()
  /** Envelopes that came too early. */
  readonly #early = new Map<string, string[]>()

  constructor(
    private readonly clock: Clock,
    private readonly fate: Fate = () => [0],
  ) {}

  /** A process's connection; what a dead process posts or would get is lost. */
  connect(): FakeBus {
    let isDead = false
    const own: string[] = []
    let unread: (() => void)[] | undefined
    const die = () => {
      isDead = true
      for (const mailbox of own) this.#mailboxes.delete(mailbox)
    }
    return {
      isReachable: true,
      send: (mailbox, envelope) => {
        if (isDead) return
        for (const delay of this.fate(envelope)) {
          this.clock.at(this.clock.now() + delay, () => this.#deliver(mailbox, envelope))
        }
      },
      listen: (mailbox, onEnvelope) => {
        own.push(mailbox)
        const hear = (envelope: string): void => {
          if (unread === undefined) onEnvelope(envelope)
          else unread.push(() => onEnvelope(envelope))
        }
        this.#mailboxes.set(mailbox, hear)
        for (const envelope of this.#early.get(mailbox) ?? []) hear(envelope)
        this.#early.delete(mailbox)
      },
      announce: async (id, record, ttlMs) => {
        if (!isDead) this.#members.set(id, { record, until: this.clock.now() + ttlMs })
      },
      withdraw: async (id) => void this.#members.delete(id),
      members: async (isKnown = () => false) => {
        const now = this.clock.now()
        const live = [...this.#members].filter(([id, { until }]) => until > now && !isKnown(id))
        this.recordsRead += live.length
        return new Map(live.map(([id, { record }]) => [id, record]))
      },
      close: async () => die(),
      die,
      stop: () => void (unread ??= []),
      goOn: () => {
        const waiting = unread ?? []
        unread = undefined
        for (const read of waiting) read()
      },
    }
  }

  #deliver(mailbox: string, envelope: string): void {
    const onEnvelope = this.#mailboxes.get(mailbox)
    if (onEnvelope !== undefined) onEnvelope(envelope)
    else this.#early.set(mailbox, [...(this.#early.get(mailbox) ?? []), envelope].slice(-100))
  }
}
