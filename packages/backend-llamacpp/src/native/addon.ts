import { type Logger, silentLogger } from '@cllm/core'
import { type Bindings, changed, checkModel } from './open/addon-bindings.js'
import { hasNoGpu } from './open/cpu-addon.js'
import { chooseFunctions } from './ffi/choose-functions.js'
import type {
  AddonContext,
  AddonLoadedModel,
  GpuKind,
  LlamaRuntime,
  LoadedModel,
  LoadModelOptions,
  NativeContextOptions,
  NativeGrammar,
} from './native.js'
import type { NativeModel } from './native-model.js'
import type { LlamaModel } from './node-llama-cpp.js'
import { bindingsOf, openForCpu, type OpenedLlama, openWhole } from './open/opened-llama.js'

/** llama.cpp is opened once per process. */
const opened = new Map<string, Promise<OpenedLlama>>()
let logger: Logger = silentLogger

/**
 * Opens llama.cpp with prebuilt binaries; nothing is ever compiled or downloaded. It stays open as
 * long as the process lives, and its log goes to the logger that came last.
 * @throws CllmError `invalid_configuration` when there is no binary for this GPU or machine,
 * `internal` when the installed node-llama-cpp lacks an internal that is used here.
 */
export async function openLlama(
  gpu: 'auto' | 'off' | GpuKind,
  lastLogger: Logger,
): Promise<LlamaRuntime> {
  logger = lastLogger
  const isOff = gpu === 'off' || (gpu === 'auto' && hasNoGpu())
  const key = isOff ? 'off' : gpu
  const opening = opened.get(key) ?? (isOff ? openForCpu(log) : openWhole(gpu, log))
  opened.set(key, opening)
  const llama = await opening
  return {
    ...llama,
    compileJinja: (source) => new llama.bindings.AddonJinjaRenderer(source),
    // A library that was built here computes on the CPU alone.
    chooseFunctions: (library) =>
      chooseFunctions(logger, llama.gpu === false ? library : undefined),
    loadModel: (async (options) => await loadModel(llama, options)) as LlamaRuntime['loadModel'],
  }
}

async function loadModel(runtime: OpenedLlama, options: LoadModelOptions): Promise<LoadedModel> {
  const { path = 'ffi', functions } = options
  if (path === 'addon') return await loadAddonModel(runtime, options)
  const chosen = functions ?? (await chooseFunctions(logger, undefined))
  if (chosen === undefined) return await loadAddonModel(runtime, options)
  const { loadFfiModel } = await import('./ffi/load-ffi-model.js')
  const gpuLayers = await gpuLayersOf(runtime, options)
  return await loadFfiModel(chosen, { ...options, gpuLayers })
}

/** How many layers fit on the GPU beside the slots, as node-llama-cpp computes it. */
async function gpuLayersOf(
  runtime: OpenedLlama,
  { modelPath, gpuLayers, contextSize, mmap, ignoreMemory = false }: LoadModelOptions,
): Promise<number> {
  if (runtime.gpu === false) return 0
  if (gpuLayers === 'max') return -1
  if (gpuLayers !== 'auto') return gpuLayers
  const { GgufInsights, readGgufFileInfo } = await import('./node-llama-cpp.js')
  const file = await readGgufFileInfo(modelPath)
  const insights = await GgufInsights.from(file, await runtime.llama())
  const fit = { fitContext: { contextSize } }
  const resolved = await insights.configurationResolver.resolveModelGpuLayersV2(fit, {
    ignoreMemorySafetyChecks: ignoreMemory,
    useMmap: mmap,
  })
  return resolved.gpuLayers
}

async function loadAddonModel(
  runtime: OpenedLlama,
  options: LoadModelOptions,
): Promise<AddonLoadedModel> {
  const llama = await runtime.llama()
  const bindings = bindingsOf(llama)
  const { modelPath, gpuLayers, contextSize, mmap, mlock, ignoreMemory = false } = options
  const model: LlamaModel = await llama.loadModel({
    modelPath,
    gpuLayers: gpuLayers === 'auto' ? { fitContext: { contextSize } } : gpuLayers,
    useMmap: mmap,
    useMlock: mlock,
    ignoreMemorySafetyChecks: ignoreMemory,
  })
  const native = checkModel((model as unknown as { _model?: unknown })._model)
  const { tokenizer } = model.fileInfo.metadata
  return {
    path: 'addon',
    native,
    tokenTexts: tokenizer?.ggml?.tokens ?? [],
    chatTemplate: tokenizer?.chat_template,
    gpuLayers: model.gpuLayers,
    createSampler: () => new bindings.AddonSampler(native),
    parseGrammar: (gbnf, root) => parseGrammar(bindings, native, gbnf, root),
    createContext: (options) => createContext(bindings, native, options),
    dispose: () => model.dispose(),
  }
}

async function createContext(
  bindings: Bindings,
  model: NativeModel,
  { kvCacheType, ...options }: NativeContextOptions,
): Promise<AddonContext | undefined> {
  const type = bindings.getGgmlType(kvCacheType.toUpperCase())
  if (type === undefined) throw changed(`getGgmlType('${kvCacheType.toUpperCase()}')`)
  const context = new bindings.AddonContext(model, {
    ...options,
    kvCacheKeyType: type,
    kvCacheValueType: type,
  })
  if (await context.init()) return takingLists(context)
  await context.dispose()
  return undefined
}

/** The addon takes typed arrays, and outputs as indexes. */
function takingLists(context: AddonContext): AddonContext {
  type Add = (sequence: number, at: number, tokens: Uint32Array, outputs: Uint32Array) => void
  const add = context.addToBatch.bind(context) as unknown as Add
  const value: AddonContext['addToBatch'] = (sequence, position, tokens, outputs) => {
    const indexes = Uint32Array.from(outputs, (output) => output - position)
    add(sequence, position, Uint32Array.from(tokens), indexes)
  }
  return Object.defineProperty(context, 'addToBatch', { value })
}

function parseGrammar(
  bindings: Bindings,
  model: NativeModel,
  gbnf: string,
  rootRuleName: string,
): NativeGrammar {
  const { AddonGrammar, AddonGrammarEvaluationState, AddonSampler } = bindings
  const grammar = new AddonGrammar(gbnf, { addonExports: bindings, rootRuleName })
  const first = new AddonGrammarEvaluationState(model, grammar)
  return {
    begin: () => new AddonGrammarEvaluationState(first),
    accept: (state, token) => AddonSampler.acceptGrammarEvaluationStateToken(state, token),
  }
}

function log(isError: boolean, message: string): void {
  const text = message.trimEnd()
  if (text !== '') logger[isError ? 'error' : 'debug']({ component: 'llama.cpp' }, text)
}
