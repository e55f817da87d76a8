import { CllmError, type Logger } from '@cllm/core'
import { chooseFunctions } from './ffi/choose-functions.js'
import { loadFfiModel } from './ffi/load-ffi-model.js'
import {
  getLlama,
  GgufInsights,
  type Llama,
  type LlamaModel,
  LlamaLogLevel,
  readGgufFileInfo,
} from './node-llama-cpp.js'
import type {
  AddonContext,
  AddonLoadedModel,
  GpuKind,
  LlamaRuntime,
  LoadedModel,
  LoadModelOptions,
  NativeContextOptions,
  NativeGrammar,
  NativeGrammarState,
  NativeModel,
  NativeSampler,
} from './native.js'
import type { JinjaTemplate } from './jinja-template.js'
import { nodeLlamaCppVersion } from './versions.js'

/** The exports of the native module that are used. */
interface Bindings {
  readonly AddonContext: new (
    model: NativeModel,
    options: Readonly<Record<string, unknown>>,
  ) => AddonContext & { init(): Promise<boolean> }
  readonly AddonSampler: {
    new (model: NativeModel): NativeSampler
    acceptGrammarEvaluationStateToken(state: NativeGrammarState, token: number): void
  }
  readonly AddonGrammar: new (gbnf: string, options: Readonly<Record<string, unknown>>) => object
  readonly AddonGrammarEvaluationState: {
    new (model: NativeModel, grammar: object): NativeGrammarState
    new (state: NativeGrammarState): NativeGrammarState
  }
  readonly AddonJinjaRenderer: new (source: string) => JinjaTemplate
  getGgmlType(name: string): number | undefined
}

const contextMethods = [
  'init',
  'initBatch',
  'addToBatch',
  'decodeBatch',
  'sampleToken',
  'disposeSequence',
  'removeTokenCellsFromSequence',
  'copySequenceStateFromOtherSequence',
  'getSequenceKvCacheMinPosition',
  'getSequenceKvCacheMaxPosition',
  'getMemoryBreakdown',
  'getEmbedding',
  'getThreads',
  'dispose',
]

const modelMethods = [
  'tokenize',
  'detokenize',
  'getTokenString',
  'getTokenAttributes',
  'isEogToken',
  'getVocabularyType',
  'shouldPrependBosToken',
  'tokenBos',
  'tokenEos',
  'prefixToken',
  'suffixToken',
  'middleToken',
  'getTrainContextSize',
  'getTotalParameters',
  'getTotalSize',
]

/** llama.cpp is opened once per process: finding its binary takes 0.3 s. */
const opened = new Map<string, Promise<Llama>>()

/**
 * Opens llama.cpp with prebuilt binaries; nothing is ever compiled or downloaded. It stays open as
 * long as the process lives, and its log goes to the logger that came last.
 * @throws CllmError `invalid_configuration` when there is no binary for this GPU or machine,
 * `internal` when the installed node-llama-cpp lacks an internal that is used here.
 */
export async function openLlama(
  gpu: 'auto' | 'off' | GpuKind,
  logger: Logger,
): Promise<LlamaRuntime> {
  const opening = opened.get(gpu) ?? open(gpu)
  opened.set(gpu, opening)
  const llama = await opening
  llama.logger = (level, message) => log(logger, level, message)
  const bindings = checkBindings((llama as unknown as { _bindings?: unknown })._bindings)
  return {
    gpu: llama.gpu,
    mathCores: llama.cpuMathCores,
    async freeMemory() {
      const { free: ram } = await llama.getRamState()
      if (llama.gpu === false) return { ram, vram: 0, unified: false }
      const { free: vram, unifiedSize } = await llama.getVramState()
      return { ram, vram, unified: unifiedSize > 0 }
    },
    compileJinja: (source) => new bindings.AddonJinjaRenderer(source),
    loadModel: ((options) =>
      loadModel(llama, bindings, options, logger)) as LlamaRuntime['loadModel'],
  }
}

async function open(gpu: 'auto' | 'off' | GpuKind): Promise<Llama> {
  try {
    const llama = await getLlama({
      gpu: gpu === 'off' ? false : gpu,
      build: 'never',
      skipDownload: true,
      progressLogs: false,
      logLevel: LlamaLogLevel.info,
      logger: () => {},
    })
    if (gpu === 'auto' || gpu === 'off' || llama.gpu === gpu) return llama
    await llama.dispose()
  } catch (cause) {
    throw noGpu(gpu, cause)
  }
  throw noGpu(gpu)
}

async function loadModel(
  llama: Llama,
  bindings: Bindings,
  options: LoadModelOptions,
  logger: Logger,
): Promise<LoadedModel> {
  const { path = 'ffi', library } = options
  if (path === 'addon') return loadAddonModel(llama, bindings, options)
  // A library that was built here computes on the CPU alone.
  const chosen = chooseFunctions(logger, llama.gpu === false ? library : undefined)
  if (chosen === undefined) return loadAddonModel(llama, bindings, options)
  const gpuLayers = await gpuLayersOf(llama, options)
  return loadFfiModel(chosen, { ...options, gpuLayers })
}

/** How many layers fit on the GPU beside the slots, as node-llama-cpp computes it. */
async function gpuLayersOf(
  llama: Llama,
  { modelPath, gpuLayers, contextSize, mmap, ignoreMemory = false }: LoadModelOptions,
): Promise<number> {
  if (llama.gpu === false) return 0
  if (gpuLayers === 'max') return -1
  if (gpuLayers !== 'auto') return gpuLayers
  const insights = await GgufInsights.from(await readGgufFileInfo(modelPath), llama)
  const fit = { fitContext: { contextSize } }
  const resolved = await insights.configurationResolver.resolveModelGpuLayersV2(fit, {
    ignoreMemorySafetyChecks: ignoreMemory,
    useMmap: mmap,
  })
  return resolved.gpuLayers
}

async function loadAddonModel(
  llama: Llama,
  bindings: Bindings,
  options: LoadModelOptions,
): Promise<AddonLoadedModel> {
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

function checkBindings(value: unknown): Bindings {
  const bindings = value as Partial<Bindings> | undefined
  checkMethods('AddonContext', bindings?.AddonContext?.prototype, contextMethods)
  checkMethods('AddonSampler', bindings?.AddonSampler?.prototype, ['applyConfig', 'dispose'])
  checkMethods('AddonSampler', bindings?.AddonSampler, ['acceptGrammarEvaluationStateToken'])
  checkMethods('bindings', bindings, [
    'getGgmlType',
    'AddonGrammar',
    'AddonGrammarEvaluationState',
    'AddonJinjaRenderer',
  ])
  return bindings as Bindings
}

function checkModel(value: unknown): NativeModel {
  checkMethods('AddonModel', value, modelMethods)
  return value as NativeModel
}

function checkMethods(owner: string, value: unknown, names: readonly string[]): void {
  const methods = value as Readonly<Record<string, unknown>> | undefined
  for (const name of names) {
    if (typeof methods?.[name] !== 'function') throw changed(`${owner}.${name}`)
  }
}

function noGpu(gpu: string, cause?: unknown): CllmError {
  return new CllmError(
    'invalid_configuration',
    `llama.cpp has no working binary here for gpu '${gpu}'; install the package ` +
      `@node-llama-cpp/… of this platform, or choose gpu 'off' or 'auto'`,
    { cause, details: { field: 'gpu', received: gpu } },
  )
}

function changed(what: string): CllmError {
  return new CllmError(
    'internal',
    `@cllm/backend-llamacpp uses internals of node-llama-cpp ${nodeLlamaCppVersion}; ` +
      `the installed version has no ${what}: install node-llama-cpp@${nodeLlamaCppVersion}`,
    { details: { expected: nodeLlamaCppVersion, missing: what } },
  )
}

function log(logger: Logger, level: LlamaLogLevel, message: string): void {
  const failed = level === LlamaLogLevel.error || level === LlamaLogLevel.fatal
  logger[failed ? 'error' : 'debug']({ component: 'llama.cpp' }, message.trimEnd())
}
