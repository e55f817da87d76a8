import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import {
  type AppliedAdapter,
  type BackendAdapters,
  type BatchItem,
  CllmError,
  type LoadedAdapter,
} from '@cllm/core'
import type {
  AppliedNativeAdapter,
  LogitsContext,
  NativeAdapter,
} from '../native/native-context.js'
import type { LoadedModel } from '../native/native.js'
import { type AdapterBase, checkAdapter } from './check-adapter.js'

/** An adapter in memory. */
class LlamaCppAdapter implements LoadedAdapter {
  constructor(
    readonly key: string,
    readonly native: NativeAdapter,
    private readonly onDispose: () => void,
  ) {}

  dispose(): void {
    this.onDispose()
    this.native.free()
  }
}

/**
 * The adapters of a model. llama.cpp applies them to a context, so to all sequences of a pass, and
 * plans its graph anew when they change.
 */
export class LlamaCppAdapters implements BackendAdapters {
  /** What the context has now. */
  #applied = ''

  constructor(
    private readonly model: { readonly loadAdapter: NonNullable<LoadedModel['loadAdapter']> },
    private readonly context: Pick<LogitsContext, 'setAdapters'>,
    private readonly base: AdapterBase,
  ) {}

  async load(path: string): Promise<LoadedAdapter> {
    await checkAdapter(path, this.base)
    const key = await hashOf(path)
    const native = await this.model.loadAdapter(path)
    if (native !== undefined) return new LlamaCppAdapter(key, native, () => this.#apply([]))
    const message =
      `${path}: expected a whole adapter for ${this.base.modelPath}, llama.cpp refuses it: it may ` +
      'be cut off or damaged; the log says why'
    throw new CllmError('model_invalid', message, { details: { path } })
  }

  /**
   * Gives the context what the items of a step are computed with.
   *
   * @throws CllmError `backend_failed` where they differ
   */
  prepare(batch: readonly BatchItem[]): void {
    const [first] = batch
    const wanted = first?.adapters ?? []
    const key = keyOf(wanted)
    if (batch.some(({ adapters }) => adapters !== first?.adapters && keyOf(adapters) !== key)) {
      throw new CllmError('backend_failed', 'the items of a step have different adapters')
    }
    if (key !== this.#applied) this.#apply(wanted)
  }

  #apply(adapters: readonly AppliedAdapter[]): void {
    this.context.setAdapters(nativeAdapters(adapters))
    this.#applied = keyOf(adapters)
  }
}

/** The adapters as a context takes them. Throws `backend_failed` for one of another backend. */
export const nativeAdapters = (adapters: readonly AppliedAdapter[] = []): AppliedNativeAdapter[] =>
  adapters.map(({ adapter, scale }) => {
    if (adapter instanceof LlamaCppAdapter) return { adapter: adapter.native, scale }
    throw new CllmError('backend_failed', 'an adapter is not one of this backend')
  })

const keyOf = (adapters: readonly AppliedAdapter[] = []): string =>
  adapters.map(({ adapter, scale }) => `${adapter.key}*${scale}`).join('+')

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex').slice(0, 32)
}
