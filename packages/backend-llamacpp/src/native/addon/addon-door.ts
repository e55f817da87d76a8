import { CllmError } from '@cllm/core'
import { type CheckedLlamaCppOptions, unknownToAddon } from '../../llamacpp-options.js'
import { AddonSamplers } from './addon-samplers.js'
import {
  type AddonContext,
  type AddonModel,
  type Bindings,
  type BoundContext,
  changed,
} from './addon-bindings.js'
import { endAll, ModelContexts, NativeCalls, type NativeContextOptions } from '../native-context.js'
import type { LoadModelOptions, NativeDoor } from '../native.js'
import type { NativeModel } from '../native-model.js'
import type { Llama, LlamaModel } from '../node-llama-cpp.js'

/**
 * Calls llama.cpp through node-llama-cpp's addon, which draws with its own samplers.
 * @param llama - loads node-llama-cpp itself
 */
export function addonDoor(bindings: Bindings, llama: () => Promise<Llama>): NativeDoor {
  return {
    name: 'addon',
    isFull: false,
    check,
    loadModel: async (options) => await loadAddonModel(bindings, await llama(), options),
  }
}

/** Refuses options that the addon does not support: ignored, they would change answers or fail later. */
function check(options: CheckedLlamaCppOptions): void {
  const names = unknownToAddon(options)
  if (names.length === 0) return
  const message = `${names.join(', ')}: expected llama.cpp's C API, which cannot be used here: the log says why`
  throw new CllmError('invalid_configuration', message, { details: { field: names[0] } })
}

async function loadAddonModel(
  bindings: Bindings,
  llama: Llama,
  { modelPath, gpuLayers, contextSize, mmap, mlock, ignoreMemory = false }: LoadModelOptions,
): Promise<AddonModel> {
  const model: LlamaModel = await llama.loadModel({
    modelPath,
    gpuLayers: gpuLayers === 'auto' ? { fitContext: { contextSize } } : gpuLayers,
    useMmap: mmap,
    useMlock: mlock,
    ignoreMemorySafetyChecks: ignoreMemory,
  })
  const { _model: native } = model as unknown as { readonly _model: NativeModel }
  const { tokenizer } = model.fileInfo.metadata
  const contexts = new ModelContexts<AddonContext>()
  return {
    native,
    vocabularySize: tokenizer?.ggml?.tokens?.length ?? 0,
    chatTemplate: tokenizer?.chat_template,
    gpuLayers: model.gpuLayers,
    onGpu: model.gpuLayers === 0 ? 'none' : 'some',
    // for several sequences the addon returns only one embedding
    embeddingInputs: 1,
    createSampler: () => new bindings.AddonSampler(native),
    createContext: async (options) =>
      await contexts.add(() => createContext(bindings, native, options)),
    dispose: () => endAll(contexts, model),
  }
}

async function createContext(
  bindings: Bindings,
  model: NativeModel,
  { kvCacheType, threads, startThreads = threads, ...options }: NativeContextOptions,
): Promise<AddonContext | undefined> {
  const type = bindings.getGgmlType(kvCacheType.toUpperCase())
  if (type === undefined) throw changed(`getGgmlType('${kvCacheType.toUpperCase()}')`)
  const { contextSize, sequences, batchSize, flashAttention, embeddings = false } = options
  const bound = new bindings.AddonContext(model, {
    contextSize,
    sequences,
    batchSize,
    flashAttention,
    embeddings,
    threads: startThreads,
    kvCacheKeyType: type,
    kvCacheValueType: type,
  })
  if (!(await bound.init())) {
    await bound.dispose()
    return undefined
  }
  const context = asNativeContext(bound)
  const createSampler = () => new bindings.AddonSampler(model)
  return Object.assign(context, {
    createSamplers: (vocabulary) => new AddonSamplers(createSampler, context, vocabulary),
  } satisfies Pick<AddonContext, 'createSamplers'>)
}

/**
 * Adapts a context of the addon. The addon takes typed arrays, and outputs as indexes; its decode returns nothing; and
 * it would free a context while other threads compute with it.
 */
function asNativeContext(context: BoundContext): AddonContext {
  const calls = new NativeCalls()
  const decode = context.decodeBatch.bind(context)
  const sample = context.sampleToken.bind(context) as (...draw: unknown[]) => Promise<unknown>
  const free = context.dispose.bind(context)
  let freed: Promise<void> | undefined
  const run = async <T>(call: () => Promise<T>): Promise<T> => {
    if (freed !== undefined) throw new CllmError('backend_failed', 'the context was disposed of')
    return await calls.during(call())
  }
  const decodeBatch: AddonContext['decodeBatch'] = async (runs) => {
    context.initBatch(runs.reduce((sum, { tokens }) => sum + tokens.length, 0))
    for (const { sequence, position, tokens, outputs } of runs) {
      const indexes = Uint32Array.from(outputs, (output) => output - position)
      context.addToBatch(sequence, position, Uint32Array.from(tokens), indexes)
    }
    await run(decode)
    return true
  }
  return Object.defineProperties<object>(context, {
    decodeBatch: { value: decodeBatch },
    sampleToken: { value: (...draw: unknown[]) => run(() => sample(...draw)) },
    dispose: { value: async () => await (freed ??= calls.ended().then(free)) },
  }) as AddonContext
}
