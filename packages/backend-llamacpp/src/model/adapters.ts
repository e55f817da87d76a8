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
import { type GgufHead, readGgufFile } from '../native/gguf-file.js'
import type {
  AppliedNativeAdapter,
  LogitsContext,
  NativeAdapter,
} from '../native/native-context.js'
import type { LoadedModel } from '../native/native.js'
import { fieldsOf, readGguf } from './model-shape.js'

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
 * The adapters of a model. llama.cpp applies them to a whole context, thus to all sequences of a pass, and rebuilds its
 * graph when they change.
 */
export class LlamaCppAdapters implements BackendAdapters {
  /** The key of the adapters that are applied to the context now. */
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
   * Applies the adapters of a step's items to the context.
   *
   * @throws CllmError `backend_failed` if the items have different adapters
   */
  prepare(batch: readonly BatchItem[]): void {
    const wanted = batch[0]?.adapters
    const key = wanted === undefined ? '' : keyOf(wanted)
    for (const { adapters } of batch) {
      if (adapters === wanted || keyOf(adapters) === key) continue
      throw new CllmError('backend_failed', 'the items of a step have different adapters')
    }
    if (key !== this.#applied) this.#apply(wanted ?? [])
  }

  #apply(adapters: readonly AppliedAdapter[]): void {
    this.context.setAdapters(nativeAdapters(adapters))
    this.#applied = keyOf(adapters)
  }
}

/** The adapters in the form that a context takes. Throws `backend_failed` if one belongs to another backend. */
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

/** The model that an adapter must fit. */
interface AdapterBase {
  readonly modelPath: string
  readonly architecture: string
}

type Shapes = ReadonlyMap<string, readonly number[]>
type Refuse = (what: string, expected: string, received: unknown) => never

/**
 * Checks that a file is a LoRA adapter and that its matrices fit the model's. llama.cpp would refuse some misfits
 * without telling its caller why, and end the process on others.
 *
 * @throws CllmError `model_unavailable` if the file cannot be read, `model_invalid` if it does not fit
 */
async function checkAdapter(path: string, base: AdapterBase): Promise<void> {
  const notThis = `${path}: expected an adapter in a GGUF file, which this is not`
  const file = await readGguf(path, notThis)
  const { metadata } = file
  const general = fieldsOf(metadata['general'])
  const adapter = fieldsOf(metadata['adapter'])
  const refuse: Refuse = (what, expected, received) => {
    const message = `${path}: expected ${what} ${expected}, instead got ${shown(received)}`
    throw new CllmError('model_invalid', message, { details: { path, expected } })
  }
  if (general['type'] !== 'adapter') {
    refuse('an adapter, with general.type', '"adapter"', general['type'])
  }
  if (adapter['type'] !== 'lora') refuse('adapter.type', '"lora"', adapter['type'])
  if (general['architecture'] !== base.architecture) {
    const expected = `"${base.architecture}", as the model has`
    refuse('general.architecture', expected, general['architecture'])
  }
  if (fieldsOf(adapter['alora'])['invocation_tokens'] !== undefined) {
    refuse(
      'an adapter',
      'that is applied to all tokens',
      'one with adapter.alora.invocation_tokens',
    )
  }
  const shapes = shapesOf(file)
  if (shapes.size === 0) refuse('an adapter', 'with matrices', 'none')
  const model = await readGgufFile(base.modelPath).catch((cause: Error) => {
    const message = `${base.modelPath}, the adapter's model, cannot be read any more: ${cause.message}`
    throw new CllmError('backend_failed', message, { cause })
  })
  checkMatrices(shapes, shapesOf(model), refuse)
}

function checkMatrices(adapter: Shapes, model: Shapes, refuse: Refuse): void {
  for (const [tensor, shape] of adapter) {
    const [, name = '', part = ''] = /^(.*)\.lora_([ab])$/.exec(tensor) ?? []
    if (name === '' && tensor.endsWith('_norm.weight')) continue
    if (name === '') refuse('matrices', 'whose names end with .lora_a or .lora_b', tensor)
    const weights = model.get(name)
    if (weights === undefined) {
      refuse('matrices', 'for weights that the model has', `${tensor}: is it for another model?`)
    }
    const other = adapter.get(`${name}.lora_${part === 'a' ? 'b' : 'a'}`)
    if (other === undefined) refuse(name, 'with both .lora_a and .lora_b', `${tensor} alone`)
    const [a, b] = part === 'a' ? [shape, other] : [other, shape]
    const [rows = 0, columns = 0] = weights
    // The matrices of embeddings are transposed.
    const isEmbedding = name.endsWith('token_embd.weight')
    const [inner, outer] = isEmbedding ? [b[1], a[1]] : [a[0], b[1]]
    if (inner === rows && outer === columns && (isEmbedding || a[1] === b[0])) continue
    const received = `${a.join('×')} and ${b.join('×')}: is it for another model?`
    refuse(name, `as matrices for weights of ${rows}×${columns}`, received)
  }
}

const shapesOf = ({ tensors }: GgufHead): Shapes =>
  new Map(tensors.map(({ name, dimensions }) => [name, dimensions]))

function shown(value: unknown): string {
  if (value === undefined) return 'none'
  return (typeof value === 'string' ? value : JSON.stringify(value)).slice(0, 100)
}
