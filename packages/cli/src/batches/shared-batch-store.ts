import { Readable } from 'node:stream'
import { type RedisBus, SharedBlobs, SharedRecords } from '@cllm/cluster'
import type {
  BatchKind,
  BatchObject,
  BatchStore,
  FileObject,
  Kept,
  NumberedLine,
  Stored,
} from '@cllm/http-koa'

/** A line of a file, and where its bytes are. */
export interface PlacedLine extends NumberedLine {
  readonly at: number
  readonly bytes: number
}

const newline = '\n'.charCodeAt(0)

/** Files and batches of a cluster, on its server. */
export class SharedBatchStore implements BatchStore {
  readonly blobs: SharedBlobs
  readonly #records: {
    readonly files: SharedRecords<Kept<FileObject>>
    readonly batches: SharedRecords<Kept<BatchObject>>
  }

  constructor(bus: RedisBus) {
    this.blobs = new SharedBlobs(bus, 'batch:content')
    this.#records = {
      files: new SharedRecords(bus, 'batch:files'),
      batches: new SharedRecords(bus, 'batch:batches'),
    }
  }

  async create(kept: Kept<FileObject>, content: Uint8Array): Promise<void> {
    await this.blobs.write(kept.object.id, [content])
    await this.put('files', kept)
  }

  async put<K extends BatchKind>(kind: K, kept: Stored<K>): Promise<void> {
    await this.#of(kind).put(kept.object.id, kept)
  }

  async get<K extends BatchKind>(kind: K, id: string): Promise<Stored<K> | undefined> {
    return await this.#of(kind).get(id)
  }

  /** Changes a batch; what other fronts change meanwhile is not lost. */
  async update(
    id: string,
    change: (batch: BatchObject) => Partial<BatchObject> | undefined,
  ): Promise<Kept<BatchObject> | undefined> {
    return await this.#records.batches.update(id, (kept) => {
      const changed = change(kept.object)
      return changed && { ...kept, object: { ...kept.object, ...changed } }
    })
  }

  async list<K extends BatchKind>(kind: K): Promise<Stored<K>[]> {
    const age = ({ object }: Stored<K>) => object.created_at
    return (await this.#of(kind).list()).sort(
      (one, other) => age(other) - age(one) || one.object.id.localeCompare(other.object.id),
    )
  }

  async remove(id: string): Promise<void> {
    await this.#records.files.remove(id)
    await this.blobs.remove(id)
  }

  content(id: string): Readable {
    return Readable.from(this.blobs.read(id))
  }

  async sizeOf(id: string): Promise<number> {
    return await this.blobs.size(id)
  }

  async *lines(id: string): AsyncGenerator<PlacedLine> {
    let [line, at] = [0, 0]
    let rest: Buffer = Buffer.alloc(0)
    const placed = (bytes: Buffer): PlacedLine => {
      const text = bytes.toString('utf8').replace(/\r$/, '')
      return { line: ++line, text, at, bytes: bytes.length }
    }
    for await (const piece of this.blobs.read(id)) {
      rest = Buffer.concat([rest, piece])
      let from = 0
      for (let end: number; (end = rest.indexOf(newline, from)) >= 0; from = end + 1) {
        const next = placed(rest.subarray(from, end))
        at += end + 1 - from
        if (next.text.trim() !== '') yield next
      }
      rest = rest.subarray(from)
    }
    const last = placed(rest)
    if (last.text.trim() !== '') yield last
  }

  /** The text of a line. */
  async textOf(id: string, { at, bytes }: Pick<PlacedLine, 'at' | 'bytes'>): Promise<string> {
    return (await this.blobs.slice(id, at, at + bytes)).toString('utf8')
  }

  #of<K extends BatchKind>(kind: K): SharedRecords<Stored<K>> {
    return this.#records[kind] as unknown as SharedRecords<Stored<K>>
  }
}
