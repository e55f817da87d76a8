import { CllmError, entryOf, type Logger, messageOf } from '@cllm/core'
import {
  addressOf,
  type NativeFunctions,
  openBuiltFfi,
  openFfi,
  runAsync,
} from './bind-functions.js'
import { FfiContext } from './ffi-context.js'
import { FfiAdapter, FfiModel } from './ffi-model.js'
import { endAll, ModelContexts } from '../native-context.js'
import type { GpuShare, LoadModelOptions, LogitsModel, NativeDoor } from '../native.js'
import type { PlacementOptions } from '../../llamacpp-options.js'
import type { Pointer, Value } from './structs.js'

/** The most inputs in one pass of embeddings. */
const embeddingInputs = 16

/** `llama_load_mode`. */
const loadModes = { none: 0, mmap: 1, mlock: 2, 'mmap+mlock': 3 } as const

/** The bound functions by the library's file (undefined: node-llama-cpp's), bound once per process. */
const bound = new Map<string | undefined, NativeFunctions>()

interface FfiLoadOptions extends LoadModelOptions {
  /** The layers on the GPU; −1: all. */
  readonly gpuLayers: number
}

/** Calls llama.cpp through its C API. */
export interface FfiDoor extends NativeDoor {
  loadModel(options: FfiLoadOptions): Promise<LogitsModel>
}

/**
 * Binds the C functions of the library that was built on this machine. If there is none, or it cannot be used (with a
 * warning), binds those of the libraries that the addon has loaded.
 * @throws Error that says why the C API cannot be used
 */
export function ffiDoor(logger: Logger, library: string | undefined): FfiDoor {
  const built = library === undefined ? undefined : bindBuilt(library, logger)
  const functions = built ?? entryOf(bound, undefined, openFfi)
  return {
    name: built === undefined ? 'prebuilt' : 'built',
    isFull: true,
    check: () => {},
    loadModel: async (options) => await loadFfiModel(functions, options),
  }
}

function bindBuilt(library: string, logger: Logger): NativeFunctions | undefined {
  try {
    return entryOf(bound, library, () => openBuiltFfi(library))
  } catch (error) {
    const reason = messageOf(error)
    logger.warn(
      { reason, library },
      `the library that was built here cannot be used (${reason}): running on the prebuilt one; ` +
        '`cllm native build` builds it again',
    )
    return undefined
  }
}

/** Loads a model through the C API. */
export async function loadFfiModel(
  functions: NativeFunctions,
  { modelPath, gpuLayers, mmap, mlock, placement = {} }: FfiLoadOptions,
): Promise<LogitsModel> {
  const { params, memory } = placementOf(functions, placement)
  const pointer = await runAsync(functions.llama_model_load_from_file, modelPath, {
    ...functions.llama_model_default_params(),
    n_gpu_layers: gpuLayers,
    load_mode: loadModes[mmap ? (mlock ? 'mmap+mlock' : 'mmap') : mlock ? 'mlock' : 'none'],
    lazy_mode: 0,
    ...params,
  })
  // llama.cpp has read what the parameters point to; this reference keeps it from being collected before.
  void memory.length
  if (pointer === null) throw new Error('llama.cpp could not load it; its log says why')
  const model = new FfiModel(functions, pointer)
  // The output layer, which computes the logits, counts as one more.
  const all = functions.llama_model_n_layer(pointer) + 1
  const layers = gpuLayers < 0 ? all : Math.min(gpuLayers, all)
  const onGpu = shareOf(layers, all, placement)
  const contexts = new ModelContexts<FfiContext>()
  let freed: Promise<void> | undefined
  return {
    native: model,
    vocabularySize: model.vocabularySize,
    chatTemplate: model.chatTemplate(),
    gpuLayers: layers,
    onGpu,
    embeddingInputs,
    createContext: async (options) =>
      await contexts.add(() => FfiContext.create(functions, model.native, { ...options, onGpu })),
    loadAdapter: async (path) =>
      await contexts.during(() => FfiAdapter.load(functions, model, path)),
    dispose: async () =>
      await (freed ??= endAll({ dispose: () => model.close() }, contexts, {
        dispose: () => model.free(),
      })),
  }
}

function shareOf(
  gpuLayers: number,
  all: number,
  { devices = [], overrideTensors = [] }: NonNullable<LoadModelOptions['placement']>,
): GpuShare {
  if (gpuLayers === 0) return 'none'
  const isWhole = gpuLayers === all && overrideTensors.length === 0 && !devices.includes('CPU')
  return isWhole ? 'all' : 'some'
}

/** `llama_split_mode`. */
const splitModes = { none: 0, layer: 1, row: 2 } as const

/** Fields of `llama_model_params`, and the memory that they point to. */
interface Placement {
  readonly params: Partial<Value<'llama_model_params'>>
  /** Must be kept until the model is loaded. */
  readonly memory: readonly NodeJS.TypedArray[]
}

/**
 * Converts a placement to llama.cpp's parameters.
 * @throws CllmError `invalid_configuration` if a device is unknown; names the existing ones
 */
function placementOf(
  functions: NativeFunctions,
  { devices, splitMode, mainGpu, tensorSplit, overrideTensors = [] }: PlacementOptions,
): Placement {
  const memory: NodeJS.TypedArray[] = []
  const keep = (array: NodeJS.TypedArray): Pointer => {
    memory.push(array)
    return addressOf(array)
  }
  const pointers = (list: readonly Pointer[]) => {
    const array = new BigUint64Array(new ArrayBuffer(8 * (list.length + 1)))
    for (const [index, pointer] of list.entries()) array[index] = pointer ?? 0n
    return keep(array)
  }
  const text = (value: string) => {
    const bytes = Buffer.from(`${value}\0`)
    const array = new Uint8Array(new ArrayBuffer(bytes.length))
    array.set(bytes)
    return keep(array)
  }
  const known = namedDevices(functions)
  const find = (name: string, field: string): Pointer => {
    const device = known.get(name)
    if (device !== undefined) return device
    const names = [...known.keys()]
    const message = `${field}: expected a device of ${names.join(', ')}, got "${name}"`
    throw new CllmError('invalid_configuration', message, {
      details: { field, expected: names, received: name },
    })
  }
  const params: Partial<Value<'llama_model_params'>> = {}
  if (devices !== undefined) {
    params.devices = pointers(devices.map((name) => find(name, 'devices')))
  }
  if (splitMode !== undefined) params.split_mode = splitModes[splitMode]
  if (mainGpu !== undefined) params.main_gpu = mainGpu
  if (tensorSplit !== undefined) {
    const shares = new Float32Array(new ArrayBuffer(4 * functions.llama_max_devices()))
    shares.set(tensorSplit)
    params.tensor_split = keep(shares)
  }
  if (overrideTensors.length > 0) {
    // Pairs of a text and a buffer type, ended by a pair of nulls.
    const pairs = overrideTensors.flatMap(({ pattern, device }) => [
      text(pattern),
      functions.ggml_backend_dev_buffer_type(find(device, 'overrideTensors')),
    ])
    params.tensor_buft_overrides = pointers([...pairs, null])
  }
  return { params, memory }
}

/** The devices that llama.cpp can compute on. */
function namedDevices(functions: NativeFunctions): Map<string, Pointer> {
  const count = functions.ggml_backend_dev_count()
  const devices = Array.from({ length: count }, (_, at) => functions.ggml_backend_dev_get(at))
  return new Map(devices.map((one) => [functions.ggml_backend_dev_name(one) ?? '', one]))
}
