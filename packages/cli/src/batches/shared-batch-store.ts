import { Readable } from 'node:stream'
import { type RedisBus, SharedBlobs, SharedRecords } from '@cllm/cluster'
import {
  type BatchKind,
  type BatchObject,
  type BatchStore,
  type FileObject,
  type Kept,
  type LinePlace,
  newestFirst,
  type PlacedLine,
  splitLines,
  type Stored,
} from '@cllm/http-koa'

/** Files and batches of a cluster, on its server. */
export class SharedBatchStore implements BatchStore {
  readonly blobs: SharedBlobs

  constructor(private readonly bus: RedisBus) {
    this.blobs = new SharedBlobs(bus, 'batch:content')
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
    return await this.#of('batches').update(id, (kept) => {
      const changed = change(kept.object)
      return changed && { ...kept, object: { ...kept.object, ...changed } }
    })
  }

  async list<K extends BatchKind>(kind: K): Promise<Stored<K>[]> {
    return newestFirst(await this.#of(kind).list())
  }

  async remove(id: string, isWhole = true): Promise<void> {
    await this.#of(id.startsWith('batch_') ? 'batches' : 'files').remove(id)
    if (isWhole) await this.blobs.remove(id)
  }

  content(id: string): Readable {
    return Readable.from(this.blobs.read(id))
  }

  async sizeOf(id: string): Promise<number> {
    return await this.blobs.size(id)
  }

  lines(id: string): AsyncGenerator<PlacedLine> {
    return splitLines(this.blobs.read(id))
  }

  async textOf(id: string, { at, bytes }: LinePlace): Promise<string> {
    return (await this.blobs.slice(id, at, at + bytes)).toString('utf8')
  }

  #of<K extends BatchKind>(kind: K): SharedRecords<Stored<K>> {
    return new SharedRecords(this.bus, `batch:${kind}`)
  }
}
