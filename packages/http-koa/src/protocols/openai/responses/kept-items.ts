import { randomUUID } from 'node:crypto'
import { CllmError, defined, pause } from '@cllm/core'
import type { Clock, FoundState, SharedStates } from '@cllm/core'
import { invalidField } from '../../../request/refusals.js'
import { Turns } from '../../../routes/define-protocol.js'
import { isOpen, scopeOf } from './response-items.js'
import type {
  ConversationObject,
  Earlier,
  Found,
  Kept,
  KeptItem,
  ResponseObject,
} from './response-items.js'

/** A response that is being computed. */
interface Running {
  readonly ending: AbortController
  readonly finish: () => void
  readonly finished: Promise<void>
}

/** The most bytes of a conversation, and of the turns before a response, as each use reads all of them. */
const mostBytes = 32 * 2 ** 20

/** The key of these files, which tells them from the states of engines. */
const key = 'responses of cllm'

/** The interval in milliseconds at which a server touches the files of responses that it computes, and checks them. */
export const beatMs = 2000
/** A server whose file was not touched for this long is taken for dead, and another one takes its response over. */
const silentMs = 5 * beatMs

/**
 * Stores responses and conversations: a file each, under the name of the API key that made it, so that nobody finds those
 * of other keys.
 *
 * A response that is being computed belongs to the server that its file names (`by`). That server touches the file at
 * each beat, and checks that it is still named. If it has not done so for {@link silentMs}, another server that is asked
 * for the response takes it over: it writes its own name, and the first server, if it had only stood still, ends its work
 * at its next beat. A file is only replaced if it has not changed since it was read, so that only one of two servers takes
 * it. A response is cancelled by writing that into its file; its server notices at its next beat, stores the answer so
 * far, and removes its name.
 */
export class KeptItems {
  /** The name of this server. A process id would not be unique among containers. */
  readonly #self = randomUUID()
  #listed: Promise<unknown> | undefined
  /** The changes by scope: one after the other, as each reads before it writes. */
  readonly #turns = new Turns()
  /** The responses that belong to this server, by scope. */
  readonly #running = new Map<string, Running>()
  /** Beats of other servers' responses that this server has waited for already. */
  readonly #watched = new Set<string>()
  /** The number of responses that could not be written, by model. */
  readonly unkept = new Map<string, number>()

  constructor(private readonly files: SharedStates) {}

  /** Stores a response or conversation, replacing an earlier version; resolves with whether it was written. */
  async put(owner: string, kept: Kept): Promise<boolean> {
    const scope = scopeOf(owner, kept.object.id)
    return await this.#turns.take(scope, async () => (await this.#write(scope, kept)) === true)
  }

  /**
   * Stores the answer of a computed response, unless it was removed, cancelled or taken over meanwhile; if it was cancelled
   * by another server, the answer so far. Resolves with whether it was written as given. Until then it counts as being
   * computed.
   */
  async finish(owner: string, kept: Kept<ResponseObject>): Promise<boolean> {
    const scope = scopeOf(owner, kept.object.id)
    let end = kept
    const isWritten = await this.#replace(scope, (found) => {
      end = isOpen(found) ? kept : { ...kept, object: { ...kept.object, status: 'cancelled' } }
      return found.by === this.#self && end
    })
    this.#end(scope)
    return isWritten && end.object.status === kept.object.status
  }

  /** A response; it has `fields` if it is unfinished and no server computes it. @throws `not_found` */
  async response(owner: string, id: string, field = 'id'): Promise<Found<ResponseObject>> {
    // Checked before it is read, as it may be cancelled meanwhile.
    const isRunning = this.#running.has(scopeOf(owner, id))
    const { fields, ...kept } = await this.#get<ResponseObject>(owner, id, 'response', field)
    return isOpen(kept) && !isRunning ? { ...kept, ...defined({ fields }) } : kept
  }

  /** @throws `not_found` */
  async conversation(owner: string, id: string, field = 'id'): Promise<Kept<ConversationObject>> {
    return await this.#get(owner, id, 'conversation', field)
  }

  /** Changes a conversation, and returns the new version. @throws `not_found`, `storage_failed` */
  async change(
    owner: string,
    id: string,
    change: (kept: Kept<ConversationObject>) => Kept<ConversationObject>,
  ) {
    const scope = scopeOf(owner, id)
    return await this.#turns.take(scope, async () => {
      for (;;) {
        const found = await this.#get<ConversationObject>(owner, id, 'conversation')
        const changed = change(found)
        const isWritten = await this.#write(scope, changed, found.file)
        if (isWritten === true) return changed
        if (isWritten === undefined) continue
        throw new CllmError('storage_failed', 'The change cannot be kept; the log says why')
      }
    })
  }

  /**
   * The items of a response and of the responses before it, the oldest first, and the oldest one's id.
   *
   * @throws `not_found` if one of them is no longer stored, `invalid_request` if it is still being computed, or all
   *   together are too large
   */
  async itemsUpTo(owner: string, id: string): Promise<Earlier> {
    const field = 'previous_response_id'
    const turns: (readonly KeptItem[])[] = []
    let bytes = 0
    let first = id
    for (let next: string | null = id; next !== null;) {
      const { object, items, file }: Found<ResponseObject> = await this.response(owner, next, field)
      bytes += file.bytes
      if (bytes > mostBytes) throw tooLarge(field, 'the turns before it')
      if (object.status === 'in_progress') throw invalidField(field, `${next} has no answer yet`)
      turns.push([...items, ...object.output])
      first = next
      next = object.previous_response_id
    }
    return { items: turns.toReversed().flat(), program: first }
  }

  /** Removes it, and ends it if it is being computed. @throws `not_found`, `storage_failed` */
  async remove(owner: string, id: string, kind: 'response' | 'conversation'): Promise<void> {
    const scope = scopeOf(owner, id)
    await this.#turns.take(scope, async () => {
      const { file } = await this.#get(owner, id, kind)
      this.#running.get(scope)?.ending.abort(ended)
      this.#end(scope)
      await this.files.remove(file)
      if ((await this.#read(scope)) === undefined) return
      throw new CllmError('storage_failed', `The ${kind} cannot be removed from its folder`)
    })
  }

  /**
   * Notes that a response is computed here until {@link finish}; `ending` aborts it before, also if another server
   * cancels, removes or takes over the response. False: it is being computed already, has ended, or cannot be written.
   *
   * @param kept - a new response, or a found one, which stays with its server if that is alive
   */
  async begin(
    owner: string,
    kept: Kept<ResponseObject> & Partial<Found>,
    ending: AbortController,
    clock: Clock,
  ) {
    const scope = scopeOf(owner, kept.object.id)
    const usedAt = kept.file?.usedAt
    if (kept.by !== undefined) {
      const beat = `${usedAt} ${scope}`
      if (this.#watched.has(beat)) return false
      this.#watched.add(beat)
      // The clocks of machines differ, so the file's age means nothing: only changes that this server sees count.
      await pause(clock, silentMs)
      this.#watched.delete(beat)
    }
    if (this.#running.has(scope)) return false
    let finish = (): void => {}
    const finished = new Promise<void>((resolve) => (finish = resolve))
    const running = { ending, finish, finished }
    this.#running.set(scope, running)
    const own = { ...kept, by: this.#self }
    const isBegun = await (usedAt === undefined
      ? this.put(owner, own)
      : this.#replace(scope, ({ by, file }) => by === kept.by && file.usedAt === usedAt && own))
    if (isBegun) void this.#watch(scope, running, clock)
    else this.#end(scope)
    return isBegun
  }

  /** Notes that it is no longer computed here, and stays as it is stored. */
  async leave(owner: string, id: string): Promise<void> {
    const scope = scopeOf(owner, id)
    await this.#replace(scope, (found) => found.by === this.#self && { ...found, by: undefined })
    this.#end(scope)
  }

  /** Cancels a response that is being computed, and waits until its server, if alive, has stored the answer so far. */
  async cancel(owner: string, id: string, clock: Clock): Promise<void> {
    const scope = scopeOf(owner, id)
    const running = this.#running.get(scope)
    running?.ending.abort(ended)
    await running?.finished
    await this.#replace(scope, (found) => {
      const { object, items, by } = found as Found<ResponseObject>
      return isOpen(found) && { object: { ...object, status: 'cancelled' }, items, by }
    })
    // Its server notices at its next beat.
    const until = clock.now() + 2 * beatMs
    while (clock.now() < until && (await this.#read(scope))?.by !== undefined) {
      await pause(clock, beatMs / 10)
    }
  }

  /** Touches the file of a response that is computed here, and ends the work if the file has changed. */
  async #watch(scope: string, { ending }: Running, clock: Clock): Promise<void> {
    while (this.#running.get(scope)?.ending === ending) {
      try {
        const found = await this.#read(scope)
        const isOver = found === undefined || !isOpen(found)
        if (isOver || found.by !== this.#self) ending.abort(isOver ? ended : taken)
        else await this.files.touch(found.file)
      } catch {
        // A failing file system says nothing about the response.
      }
      await pause(clock, beatMs)
    }
  }

  #end(scope: string): void {
    this.#running.get(scope)?.finish()
    this.#running.delete(scope)
  }

  /** Replaces a stored version with the result of `change`, if any; resolves with whether it did. */
  async #replace(scope: string, change: (found: Found) => Kept | false): Promise<boolean> {
    const replacing = this.#turns.take(scope, async () => {
      for (;;) {
        const found = await this.#read(scope)
        const next = found !== undefined && change(found)
        const isWritten = next !== false && (await this.#write(scope, next, found?.file))
        if (isWritten !== undefined) return isWritten
      }
    })
    return await replacing.catch(() => false)
  }

  async #get<Kind>(owner: string, id: string, kind: 'response' | 'conversation', field = 'id') {
    const found = await this.#read(scopeOf(owner, id))
    if (found?.object.object === kind) return found as Found<Kind>
    const message = `There is no ${kind} "${id.slice(0, 64)}" here`
    throw new CllmError('not_found', message, { details: { field } })
  }

  /** Resolves with whether it was written; undefined: another server has changed the version that it replaces. */
  async #write(scope: string, { object, items, fields, by }: Kept, instead?: FoundState) {
    const data = Buffer.from(JSON.stringify({ object, items, fields, by }))
    const isTooLarge = object.object === 'conversation' && data.length > mostBytes
    if (isTooLarge) throw tooLarge('items', 'a conversation')
    if ((await this.files.write(headOf(scope), data, instead)) !== undefined) return true
    const version = instead?.version
    if (version !== undefined && (await this.files.find(headOf(scope)))?.version !== version) {
      return undefined
    }
    const model = 'model' in object ? String(object.model) : ''
    this.unkept.set(model, (this.unkept.get(model) ?? 0) + 1)
    return false
  }

  async #read(scope: string): Promise<Found | undefined> {
    // Lists once, so that files of another key are logged.
    await (this.#listed ??= this.files.list?.(key))
    const file = await this.files.find(headOf(scope))
    if (file === undefined) return undefined
    const kept = JSON.parse(Buffer.from(file.data).toString()) as Kept
    // Files that are used are kept longer; the file of a response in progress is only touched by its server.
    if (!isOpen(kept)) void this.files.touch(file)
    return { ...kept, file }
  }
}

const ended = new CllmError('cancelled', 'The request was cancelled: its response was stopped')
/** The reason why a response ends here that another server took over while this one stood still. */
export const taken = new CllmError('shutting_down', 'Another server computes this response')

const tooLarge = (field: string, what: string): CllmError =>
  invalidField(field, `expected ${what} to have at most ${mostBytes} bytes, instead got more`)

const headOf = (scope: string) => ({ key, scope, partial: false, tokens: [] })
