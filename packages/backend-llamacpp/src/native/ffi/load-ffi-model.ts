import type { FfiLoadedModel, GpuShare, LoadModelOptions, PlacementOptions } from '../native.js'
import { ModelContexts } from '../model-contexts.js'
import { runAsync } from './bind-functions.js'
import type { ChosenFunctions } from './choose-functions.js'
import { FfiAdapter } from './ffi-adapter.js'
import { FfiContext } from './ffi-context.js'
import { parseFfiGrammar } from './ffi-grammar.js'
import { FfiModel } from './ffi-model.js'
import { placementOf } from './placement.js'

/** `llama_load_mode`. */
const loadModes = { none: 0, mmap: 1, mlock: 2, 'mmap+mlock': 3 } as const

/** Settings that the addon resolves before. */
export type FfiModelOptions = Pick<
  LoadModelOptions,
  'modelPath' | 'mmap' | 'mlock' | 'placement'
> & {
  /** Layers on the GPU; −1 for all. */
  readonly gpuLayers: number
}

/**
 * Loads a model through the C API.
 * @throws Error when llama.cpp cannot; why is in its log
 */
export async function loadFfiModel(
  { functions, library }: ChosenFunctions,
  { modelPath, gpuLayers, mmap, mlock, placement = {} }: FfiModelOptions,
): Promise<FfiLoadedModel> {
  const { params, memory } = placementOf(functions, placement)
  const pointer = await runAsync(functions.llama_model_load_from_file, modelPath, {
    ...functions.llama_model_default_params(),
    n_gpu_layers: gpuLayers,
    load_mode: loadModes[mmap ? (mlock ? 'mmap+mlock' : 'mmap') : mlock ? 'mlock' : 'none'],
    lazy_mode: 0,
    ...params,
  })
  // llama.cpp has read what the parameters point to; until here the collector must not take it.
  void memory.length
  if (pointer === null) throw new Error('llama.cpp could not load it; its log says why')
  const model = new FfiModel(functions, pointer)
  const onGpu = shareOf(gpuLayers, functions.llama_model_n_layer(pointer), placement)
  const contexts = new ModelContexts<FfiContext>()
  let freed: Promise<void> | undefined
  return {
    path: 'ffi',
    native: model,
    vocabularySize: model.vocabularySize,
    chatTemplate: model.chatTemplate(),
    gpuLayers,
    onGpu,
    library,
    parseGrammar: (gbnf, root) => parseFfiGrammar(functions, model, gbnf, root),
    createContext: async (options) =>
      await contexts.add(() => FfiContext.create(functions, model.native, { ...options, onGpu })),
    loadAdapter: async (path) =>
      await contexts.during(() => FfiAdapter.load(functions, model, path)),
    dispose: async () => await (freed ??= free()),
  }

  async function free(): Promise<void> {
    model.close()
    await contexts.dispose()
    model.free()
  }
}

/** The layer behind the last one gives the logits. */
function shareOf(gpuLayers: number, layers: number, placement: PlacementOptions): GpuShare {
  if (gpuLayers === 0) return 'none'
  const { devices = [], overrideTensors = [] } = placement
  const isWhole = gpuLayers < 0 || gpuLayers > layers
  return isWhole && overrideTensors.length === 0 && !devices.includes('CPU') ? 'all' : 'some'
}
