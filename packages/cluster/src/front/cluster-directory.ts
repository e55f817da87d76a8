import { aliasesOf, type ClosableDirectory, resolveModelName } from '@cllm/host'
import { CllmError, type EngineClient, type ModelStatus } from '@cllm/core'
import type { ClusterFront } from './cluster-front.js'
import { noWorker, whyIncompatible } from './members.js'

/** The models of a cluster for the transports of a front; a model appears with its first worker. */
export class ClusterDirectory implements ClosableDirectory {
  readonly #aliases: ReadonlyMap<string, string | null>

  constructor(
    private readonly front: ClusterFront,
    /** The names of models by their aliases; null: the default model. */
    aliases: Readonly<Record<string, string | null>> = {},
  ) {
    this.#aliases = new Map(Object.entries(aliases))
  }

  /** The models, including those whose workers all have other versions. */
  list(): readonly string[] {
    const others = this.front.incompatible.flatMap(({ model }) => (model === '' ? [] : [model]))
    return [...new Set([...this.front.models, ...others])]
  }

  nameOf(id?: string): string {
    const names = this.list()
    if (names.length > 0) return resolveModelName(names, this.#aliases, id)
    throw new CllmError('engine_unavailable', 'The cluster has no worker yet')
  }

  open(id?: string, { peek = false }: { readonly peek?: boolean } = {}): EngineClient {
    const name = this.nameOf(id)
    const client = this.front.client(name)
    const error = this.#whyNone(name)
    if (error !== undefined) throw error
    if (peek && client.workers.members.length === 0) throw noWorker()
    return client
  }

  status(id?: string): ModelStatus {
    const name = this.nameOf(id)
    const [member] = this.front.client(name).workers.members
    return {
      name,
      state: member === undefined ? 'unloaded' : 'loaded',
      users: 0,
      waiting: 0,
      info: member?.record.info,
      aliases: aliasesOf(name, this.list(), this.#aliases),
      expiresAt: undefined,
      error: this.#whyNone(name),
    }
  }

  /** The error if waiting for a worker would be in vain. */
  #whyNone(name: string): CllmError | undefined {
    if (this.front.client(name).workers.members.length > 0) return undefined
    const incompatible = this.front.incompatible.filter(({ model }) => model === name)
    if (incompatible.length === 0) return undefined
    const message = `No worker can be used: ${whyIncompatible(incompatible)}`
    return new CllmError('cluster_unavailable', message)
  }

  /** Has no effect: workers keep their models. */
  async unload(id: string): Promise<void> {
    this.nameOf(id)
  }

  async drain(): Promise<void> {
    await Promise.allSettled(this.list().map(async (name) => await this.front.client(name).drain()))
  }

  async close(): Promise<void> {
    await this.front.close()
  }
}
