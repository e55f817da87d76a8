import { randomUUID } from 'node:crypto'
import { CllmError, defined, pause } from '@cllm/core'
import type { Clock, FoundState, SharedStates } from '@cllm/core'
import { invalidField } from '../../../request/refusals.js'
import { isOpen, scopeOf } from './response-items.js'
import type { ConversationObject, Found, Kept, KeptItem, ResponseObject } from './response-items.js'

/** A response that is computed now. */
interface Running {
  readonly ending: AbortController
  readonly finish: () => void
  readonly finished: Promise<void>
}

/** Bytes of a conversation, and of the turns that a response follows, at most: each use reads them all. */
const mostBytes = 32 * 2 ** 20

/** Tells these files from the states of engines. */
const key = 'responses of cllm'

/** Milliseconds between two times that a server sets of what it computes, and looks what became of it … */
export const beatMs = 2000
/** … and for which another one watches it do nothing until it goes on in its place. */
const silentMs = 5 * beatMs

/**
 * Responses and conversations in a folder: a file each, under the name of the API key that made it, so
 * that those of others do not exist for anybody.
 *
 * A response that is being computed belongs to one server, whose name (`by`) its file has. That server touches the file
 * at each beat, and looks whether the name is still its own. Where it did not for {@link silentMs}, another server that
 * is asked for the response takes it: it writes its own name, and the first one, if it only stood still, ends its work
 * at its next beat. A file is replaced only as it was read, so that of two servers one takes it. To cancel a response is to
 * write that it is cancelled; its server finds that at its next beat, keeps what there is of the answer, and takes its
 * name away.
 */
export class KeptItems {
  /** This server, for others: a process number is no name between containers. */
  readonly #self = randomUUID()
  #listed: Promise<unknown> | undefined
  /** One after the other, as each changes what it has read. */
  #changing: Promise<unknown> = Promise.resolve()
  /** The responses that belong to this server, by scope. */
  readonly #running = new Map<string, Running>()
  /** Beats of other servers, by response, after which this one waits for the next: once for each. */
  readonly #watched = new Set<string>()
  /** How many could not be written, by model; conversations have none. */
  readonly unkept = new Map<string, number>()

  constructor(private readonly files: SharedStates) {}

  /** Keeps it, in place of what was kept before; resolves with whether it is written. */
  async put(owner: string, kept: Kept): Promise<boolean> {
    const scope = scopeOf(owner, kept.object.id)
    return await this.#inTurn(async () => (await this.#write(scope, kept)) === true)
  }

  /**
   * Keeps the answer of a response that was computed, unless it was removed, cancelled or taken over
   * meanwhile: of one that was cancelled elsewhere, what there is of its answer. Resolves with whether it is
   * written as it is given. It is computed still until then.
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

  /** With `fields` where it is to be computed and is not, unless another server still is. @throws `not_found` */
  async response(owner: string, id: string, field = 'id'): Promise<Found<ResponseObject>> {
    // Before it is read: it may be cancelled meanwhile.
    const isRunning = this.#running.has(scopeOf(owner, id))
    const { fields, ...kept } = await this.#get<ResponseObject>(owner, id, 'response', field)
    return isOpen(kept) && !isRunning ? { ...kept, ...defined({ fields }) } : kept
  }

  /** @throws `not_found` */
  async conversation(owner: string, id: string, field = 'id'): Promise<Kept<ConversationObject>> {
    return await this.#get(owner, id, 'conversation', field)
  }

  /** Changes a conversation, and returns it as it is then. @throws `not_found`, `storage_failed` */
  async change(
    owner: string,
    id: string,
    change: (kept: Kept<ConversationObject>) => Kept<ConversationObject>,
  ) {
    const scope = scopeOf(owner, id)
    return await this.#inTurn(async () => {
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
   * The items of a response and of those before it, the oldest first.
   *
   * @throws `not_found` where one of them is kept no longer, `invalid_request` where it is computed still, or
   *   they are too large together
   */
  async itemsUpTo(owner: string, id: string): Promise<readonly KeptItem[]> {
    const field = 'previous_response_id'
    const turns: (readonly KeptItem[])[] = []
    let bytes = 0
    for (let next: string | null = id; next !== null;) {
      const { object, items, file }: Found<ResponseObject> = await this.response(owner, next, field)
      bytes += file.bytes
      if (bytes > mostBytes) throw tooLarge(field, 'the turns before it')
      if (object.status === 'in_progress') throw invalidField(field, `${next} has no answer yet`)
      turns.push([...items, ...object.output])
      next = object.previous_response_id
    }
    return turns.toReversed().flat()
  }

  /** Forgets it, and ends it if it is computed now. @throws `not_found`, `storage_failed` */
  async remove(owner: string, id: string, kind: 'response' | 'conversation'): Promise<void> {
    const scope = scopeOf(owner, id)
    await this.#inTurn(async () => {
      const { file } = await this.#get(owner, id, kind)
      this.#running.get(scope)?.ending.abort(ended)
      this.#end(scope)
      await this.files.remove(file)
      if ((await this.#read(scope)) === undefined) return
      throw new CllmError('storage_failed', `The ${kind} cannot be removed from its folder`)
    })
  }

  /**
   * Notes that a response is computed here, until it is {@link finish}ed; `ending` ends it before, also where
   * another server cancels, removes or takes it. False: it is computed already, is over, or cannot be written.
   *
   * @param kept - as it begins, or as it was found: then it stays with its server if that shows life
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
      // Clocks of machines differ, so the age of the file says nothing: only what this one has seen counts.
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

  /** Notes that it is computed here no more, and stays as it is kept. */
  async leave(owner: string, id: string): Promise<void> {
    const scope = scopeOf(owner, id)
    await this.#replace(scope, (found) => found.by === this.#self && { ...found, by: undefined })
    this.#end(scope)
  }

  /** Ends a response that is computed, and waits until its server has kept what there is of it, unless that is gone. */
  async cancel(owner: string, id: string, clock: Clock): Promise<void> {
    const scope = scopeOf(owner, id)
    const running = this.#running.get(scope)
    running?.ending.abort(ended)
    await running?.finished
    await this.#replace(scope, (found) => {
      const { object, items, by } = found as Found<ResponseObject>
      return isOpen(found) && { object: { ...object, status: 'cancelled' }, items, by }
    })
    // Its next beat finds it cancelled.
    const until = clock.now() + 2 * beatMs
    while (clock.now() < until && (await this.#read(scope))?.by !== undefined) {
      await pause(clock, beatMs / 10)
    }
  }

  /** Shows that a response is computed here, and ends it where its file says otherwise. */
  async #watch(scope: string, { ending }: Running, clock: Clock): Promise<void> {
    while (this.#running.get(scope)?.ending === ending) {
      try {
        const found = await this.#read(scope)
        const isOver = found === undefined || !isOpen(found)
        if (isOver || found.by !== this.#self) ending.abort(isOver ? ended : taken)
        else await this.files.touch(found.file)
      } catch {
        // A file system that fails says nothing of it.
      }
      await pause(clock, beatMs)
    }
  }

  #end(scope: string): void {
    this.#running.get(scope)?.finish()
    this.#running.delete(scope)
  }

  /** Writes what is to be in place of what is kept, if anything; resolves with whether it did. */
  async #replace(scope: string, change: (found: Found) => Kept | false): Promise<boolean> {
    const replacing = this.#inTurn(async () => {
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

  /** Resolves with whether it is written; undefined: another server has changed what it replaces. */
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
    // For the log: whether there are files of another key.
    await (this.#listed ??= this.files.list?.(key))
    const file = await this.files.find(headOf(scope))
    if (file === undefined) return undefined
    const kept = JSON.parse(Buffer.from(file.data).toString()) as Kept
    // What is used is kept longer; that which is computed is its server's to touch.
    if (!isOpen(kept)) void this.files.touch(file)
    return { ...kept, file }
  }

  async #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changing.then(change)
    this.#changing = done.catch(() => {})
    return await done
  }
}

const ended = new CllmError('cancelled', 'The request was cancelled: its response was stopped')
/** Why what another server took over ends here: this one stood still. */
export const taken = new CllmError('shutting_down', 'Another server computes this response')

const tooLarge = (field: string, what: string): CllmError =>
  invalidField(field, `expected ${what} to have at most ${mostBytes} bytes, instead got more`)

const headOf = (scope: string) => ({ key, scope, partial: false, tokens: [] })
