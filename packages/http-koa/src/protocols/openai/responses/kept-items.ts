import { CllmError, type StateFile, type StateFiles } from '@cllm/core'
import { invalidField } from '../../../request/refusals.js'

/** An item of a conversation, as a client sent it or as the server answered; each has an id here. */
export interface KeptItem {
  readonly id: string
  readonly type: string
  readonly [member: string]: unknown
}

/** A response as it is kept. */
export interface ResponseObject {
  readonly id: string
  readonly object: 'response'
  readonly status: string
  readonly background?: unknown
  readonly previous_response_id: string | null
  readonly output: readonly KeptItem[]
  readonly [member: string]: unknown
}

/** What makes several turns one conversation. */
export interface ConversationObject {
  readonly id: string
  readonly object: 'conversation'
  /** Seconds since the epoch. */
  readonly created_at: number
  readonly metadata: Readonly<Record<string, unknown>>
}

/** A response with the items that it answers, or a conversation with all of its items. */
export interface Kept<Kind = ResponseObject | ConversationObject> {
  readonly object: Kind
  readonly items: readonly KeptItem[]
  /** The fields of what asks for it, while it is computed in the background: whoever finds it unfinished goes on. */
  readonly fields?: object
}

/** A response that is computed now. */
interface Running {
  readonly ending: AbortController
  readonly finish: () => void
  readonly finished: Promise<void>
}

/** Tells these files from the states of engines. */
const key = 'responses of cllm'

/**
 * Responses and conversations in a folder: a file each, under the name of the API key that made it, so
 * that those of others do not exist for anybody.
 */
export class KeptItems {
  #index: Promise<Map<string, StateFile>> | undefined
  /** One after the other: what is read while it is replaced seems damaged. */
  #changing: Promise<unknown> = Promise.resolve()
  /** Ends responses that are computed now. */
  readonly #running = new Map<string, Running>()

  constructor(private readonly files: StateFiles) {}

  /** Keeps it, in place of what was kept before; resolves with whether it is written. */
  async put(owner: string, kept: Kept): Promise<boolean> {
    const scope = scopeOf(owner, kept.object.id)
    return await this.#inTurn(async (index) => await this.#write(index, scope, kept))
  }

  /**
   * Keeps the answer of a response that was computed, unless it was removed meanwhile; resolves with
   * whether it is written. It is computed still until then.
   */
  async finish(owner: string, kept: Kept<ResponseObject>): Promise<boolean> {
    const scope = scopeOf(owner, kept.object.id)
    const running = this.#running.get(scope)
    if (running === undefined) return false
    const isWritten = await this.#inTurn(async (index) => {
      return this.#running.get(scope) === running && (await this.#write(index, scope, kept))
    })
    this.leave(owner, kept.object.id)
    return isWritten
  }

  /** With `fields` where it is to be computed and is not: its server ended. @throws `not_found` */
  async response(owner: string, id: string, field = 'id'): Promise<Kept<ResponseObject>> {
    return await this.#inTurn(async () => {
      // Before it is read: it may be cancelled meanwhile.
      const isRunning = this.#running.has(scopeOf(owner, id))
      const { fields, ...kept } = await this.#get<ResponseObject>(owner, id, 'response', field)
      const isLost = kept.object.status === 'in_progress' && !isRunning
      return isLost ? { ...kept, fields: fields ?? {} } : kept
    })
  }

  /** @throws `not_found` */
  async conversation(owner: string, id: string, field = 'id'): Promise<Kept<ConversationObject>> {
    return await this.#inTurn(
      async () => await this.#get<ConversationObject>(owner, id, 'conversation', field),
    )
  }

  /** Changes a conversation, and returns it as it is then. @throws `not_found`, `storage_failed` */
  async change(
    owner: string,
    id: string,
    change: (kept: Kept<ConversationObject>) => Kept<ConversationObject>,
  ): Promise<Kept<ConversationObject>> {
    const scope = scopeOf(owner, id)
    return await this.#inTurn(async (index) => {
      const changed = change(await this.#get<ConversationObject>(owner, id, 'conversation'))
      if (await this.#write(index, scope, changed)) return changed
      throw new CllmError('storage_failed', 'The change cannot be kept; the log says why')
    })
  }

  /**
   * The items of a response and of those before it, the oldest first.
   *
   * @throws `not_found` where one of them is kept no longer, `invalid_request` where it is computed still
   */
  async itemsUpTo(owner: string, id: string): Promise<readonly KeptItem[]> {
    const field = 'previous_response_id'
    const turns: (readonly KeptItem[])[] = []
    for (let next: string | null = id; next !== null;) {
      const { object, items }: Kept<ResponseObject> = await this.response(owner, next, field)
      if (object.status === 'in_progress') throw invalidField(field, `${next} has no answer yet`)
      turns.push([...items, ...object.output])
      next = object.previous_response_id
    }
    return turns.toReversed().flat()
  }

  /** Forgets it, and ends it if it is computed now. @throws `not_found` */
  async remove(owner: string, id: string, kind: 'response' | 'conversation'): Promise<void> {
    const scope = scopeOf(owner, id)
    await this.#inTurn(async (index) => {
      await this.#get(owner, id, kind)
      const running = this.#running.get(scope)
      this.#running.delete(scope)
      running?.ending.abort(ended)
      running?.finish()
      const file = index.get(scope)
      index.delete(scope)
      if (file !== undefined) await this.files.remove(file)
    })
  }

  /** Notes that a response is computed, until it is {@link finish}ed; `ending` ends it before. False: it is already. */
  begin(owner: string, id: string, ending: AbortController): boolean {
    if (this.#running.has(scopeOf(owner, id))) return false
    let finish = (): void => {}
    const finished = new Promise<void>((resolve) => (finish = resolve))
    this.#running.set(scopeOf(owner, id), { ending, finish, finished })
    return true
  }

  /** Notes that it is computed no more, and stays as it is kept. */
  leave(owner: string, id: string): void {
    const scope = scopeOf(owner, id)
    this.#running.get(scope)?.finish()
    this.#running.delete(scope)
  }

  /** Ends a response that is computed now; resolves when it is. */
  async cancel(owner: string, id: string): Promise<void> {
    const running = this.#running.get(scopeOf(owner, id))
    running?.ending.abort(ended)
    await running?.finished
  }

  async #get<Kind>(
    owner: string,
    id: string,
    kind: 'response' | 'conversation',
    field = 'id',
  ): Promise<Kept<Kind>> {
    const kept = await this.#read(scopeOf(owner, id))
    if (kept?.object.object === kind) return kept as Kept<Kind>
    const message = `There is no ${kind} "${id.slice(0, 64)}" here`
    throw new CllmError('not_found', message, { details: { field } })
  }

  async #write(index: Map<string, StateFile>, scope: string, kept: Kept): Promise<boolean> {
    const data = Buffer.from(JSON.stringify(kept))
    const file = await this.files.write({ key, scope, partial: false, tokens: [] }, data)
    const removed = new Set(file?.removed)
    for (const [other, { name }] of index) if (removed.has(name)) index.delete(other)
    if (file !== undefined) index.set(scope, file)
    return file !== undefined
  }

  async #read(scope: string): Promise<Kept | undefined> {
    const file = (await this.#opened()).get(scope)
    if (file === undefined) return undefined
    const data = await this.files.read(file, (bytes) => new Uint8Array(bytes))
    // what is used is kept longer
    void this.files.touch(file)
    return data && (JSON.parse(Buffer.from(data).toString()) as Kept)
  }

  async #opened(): Promise<Map<string, StateFile>> {
    this.#index ??= (async () => {
      const index = new Map<string, StateFile>()
      const add = (files: readonly StateFile[]): void => {
        for (const file of files) index.set(file.scope, file)
      }
      add(await this.files.list(key, add))
      return index
    })()
    return await this.#index
  }

  async #inTurn<T>(change: (index: Map<string, StateFile>) => Promise<T>): Promise<T> {
    const done = this.#changing.then(async () => await change(await this.#opened()))
    this.#changing = done.catch(() => {})
    return await done
  }
}

const ended = new CllmError('cancelled', 'The request was cancelled: its response was stopped')

const scopeOf = (owner: string, id: string): string => JSON.stringify([owner, id])
