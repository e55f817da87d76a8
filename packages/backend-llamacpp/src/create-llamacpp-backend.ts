import { availableParallelism } from 'node:os'
import {
  type Backend,
  CellPool,
  type Clock,
  CllmError,
  type Logger,
  silentLogger,
} from '@cllm/core'
import { openLlama } from './native/open-llama.js'
import { ChatTemplate } from './text/chat-template.js'
import { compileTemplate } from './text/compile-template.js'
import { LlamaCppBackend } from './llamacpp-backend.js'
import {
  type CheckedLlamaCppOptions,
  checkLlamaCppOptions,
  forAddon,
  type LlamaCppOptions,
} from './llamacpp-options.js'
import { checkPlan, shareCells } from './model/fit-memory.js'
import { capabilitiesOf, limitsOf, tileOf } from './model/capabilities-of.js'
import { cellsOf } from './model/memory-plan.js'
import { LlamaCppAdapters } from './model/llamacpp-adapters.js'
import { Embedder } from './model/embedder.js'
import { embeddingTokens, inputsPerPass, openEmbeddings } from './model/open-embeddings.js'
import { findLayout } from './layout/find-layout.js'
import type { LoadJournal } from './layout/load-journal.js'
import { ConstraintGrammars } from './grammar/constraint-grammars.js'
import { memoryKind } from './model/memory-kind.js'
import { modelInfo } from './model/model-info.js'
import { type ModelShape, readModelShape } from './model/model-shape.js'
import type { ChosenFunctions } from './native/ffi/choose-functions.js'
import type { LlamaRuntime, LoadedModel } from './native/native.js'
import { PlainTextGuard } from './text/plain-text-guard.js'
import { type ContextSettings, type OpenContext, openContext } from './model/open-context.js'
import { openStates } from './model/open-states.js'
import { SlotCells } from './slots/slot-cells.js'
import { TextParts } from './text/text-parts.js'
import { chooseThreads, type CoreShare } from './threads/threads-for.js'
import { LlamaCppTokenizer } from './text/tokenizer.js'
import { Vocabulary } from './text/vocabulary.js'

/** Tokens per slot where nothing is set and the model was trained for more. */
const defaultContextSize = 4096

/** Services and limits that the caller provides. */
export interface LlamaCppDependencies {
  readonly clock: Clock
  readonly logger: Logger
  /**
   * Bytes of RAM that this process may still take, where something sets a lower limit than the
   * machine's free memory, such as a container.
   */
  readonly availableMemory?: () => number
  /** CPU cores to compute on; default: all cores available to the process, for this engine alone. */
  readonly cores?: CoreShare
  /**
   * The file of a library that was built for this machine, as `cllm native build` does it; used on the
   * CPU with `native: 'ffi'`. One for another CPU can end the process. Default: node-llama-cpp's.
   */
  readonly library?: string | undefined
  /**
   * The folder in which is kept what load each model had, by which `kvUnified: 'auto'` chooses the layout
   * of its KV cells. Default: each slot has its own.
   */
  readonly layouts?: string | undefined
}

/** A backend whose forward passes can be measured. */
export interface MeasurableBackend extends Backend {
  /** `step` without drawing tokens: to measure the forward passes alone. */
  readonly forward: Backend['step']
}

/**
 * Loads a GGUF model into llama.cpp. Memory for weights and slots is checked before. The backend
 * runs one native forward pass per step for all sequences, and draws as llama.cpp's samplers do; while layers
 * are on the CPU the process should have been started with `UV_THREADPOOL_SIZE=1`.
 * @throws CllmError `invalid_configuration`, `model_unavailable`, `model_invalid` or
 * `insufficient_memory`
 */
export async function createLlamaCppBackend(
  options: LlamaCppOptions,
  dependencies: LlamaCppDependencies,
): Promise<MeasurableBackend> {
  const checked = checkLlamaCppOptions(options)
  const shape = await readModelShape(checked.modelPath)
  const contextSize = contextSizeOf(checked, shape, dependencies.logger)
  const llama = await openLlama(checked.gpu, dependencies.logger)
  const { logger, cores = { cores: availableParallelism(), engines: 1 } } = dependencies
  const threads = chooseThreads(checked.threads, llama.mathCores, cores, logger)
  const { native } = checked
  const library = native === 'ffi' ? dependencies.library : undefined
  const functions = native === 'addon' ? undefined : await llama.chooseFunctions(library)
  // Before anything is planned: the addon does not have all that the C API has, such as one pool of cells.
  const usable = functions === undefined ? forAddon(checked) : checked
  return await load(llama, functions, shape, { ...usable, contextSize, threads }, dependencies)
}

type Settings = ContextSettings

async function load(
  llama: LlamaRuntime,
  functions: ChosenFunctions | undefined,
  shape: ModelShape,
  wanted: Settings,
  dependencies: LlamaCppDependencies,
): Promise<MeasurableBackend> {
  const settings = await shareCells(llama, shape, wanted, dependencies)
  const memoryBytes = await checkPlan(llama, shape, settings, dependencies)
  const { modelPath, gpuLayers, mmap, mlock } = settings
  const { ignoreMemoryCheck: ignoreMemory, placement = {} } = settings
  const cells = cellsOf(settings)
  const loaded = await llama
    .loadModel({
      modelPath,
      gpuLayers,
      mmap,
      mlock,
      ignoreMemory,
      contextSize: cells,
      path: functions === undefined ? 'addon' : 'ffi',
      placement,
      functions,
    })
    .catch((cause: unknown) => {
      throw loadFailure(cause, modelPath)
    })
  const open = async (own: Settings, last?: LastParts): Promise<LlamaCppBackend> => {
    const opened = await openContext(loaded, own, cells, dependencies.clock)
    try {
      const { logger = silentLogger } = last ?? {}
      const all = { ...own, memoryBytes }
      return assemble(llama, loaded, opened, whole, all, { ...dependencies, logger }, last)
    } catch (error) {
      await opened.context.dispose()
      throw error
    }
  }
  const whole = { ...shape, ...memoryKind(loaded.native, shape) }
  const close = () => loaded.dispose()
  try {
    const { kvUnified, journal } = await findLayout(
      { llama, loaded, shape: whole, settings },
      dependencies,
      (kvUnified) => open({ ...settings, kvUnified }),
    )
    const { logger } = dependencies
    return await open({ ...settings, kvUnified }, { logger, journal, close })
  } catch (error) {
    await close()
    throw error
  }
}

/** What the backend has that is not only opened to be measured. */
interface LastParts {
  readonly logger: Logger
  readonly journal: LoadJournal | undefined
  /** Frees the model. */
  readonly close: () => Promise<void>
}

function assemble(
  llama: LlamaRuntime,
  loaded: LoadedModel,
  opened: OpenContext,
  shape: ModelShape,
  settings: Settings & { readonly memoryBytes: number },
  dependencies: LlamaCppDependencies,
  { journal, close = async () => {} }: Partial<LastParts> = {},
): LlamaCppBackend {
  const { clock, logger } = dependencies
  const { native, vocabularySize, chatTemplate: own } = loaded
  if (vocabularySize === 0) {
    throw new CllmError('model_invalid', `${settings.modelPath} holds no vocabulary`)
  }
  const vocabulary = new Vocabulary(native, vocabularySize)
  const parts = new TextParts(native, vocabulary)
  const guard = new PlainTextGuard(parts, vocabulary)
  const template = ChatTemplate.choose(settings.chatTemplate, own, guard, vocabulary, logger, {
    compile: (source) => compileTemplate(source, (text) => llama.compileJinja(text)),
    now: () => clock.now(),
  })
  const tokenizer = new LlamaCppTokenizer(parts, vocabulary, template)
  const samplers = opened.samplers(vocabulary, tokenizer, logger)
  const capabilities = capabilitiesOf(llama, loaded, shape, opened, samplers, settings)
  const { stateful, context } = opened
  const { slots, contextSize: slotSize, kvTokens } = settings
  const kvUnified = settings.kvUnified === 'on'
  const cells = new SlotCells(context, slots, {
    slotSize,
    slidingWindow: shape.slidingWindow,
    isRecurrent: shape.isRecurrent,
    copiesLate: !kvUnified,
    shifting: capabilities.contextShift === true ? stateful : undefined,
    ...(kvTokens !== undefined && { pool: new CellPool(cellsOf(settings), slots) }),
  })
  const base = { modelPath: settings.modelPath, architecture: shape.architecture }
  const adapters =
    loaded.path === 'ffi' && stateful !== undefined
      ? new LlamaCppAdapters(loaded, stateful, base)
      : undefined
  return new LlamaCppBackend({
    model: modelInfo(loaded, shape, settings, vocabulary, template),
    limits: limitsOf(llama, loaded, settings),
    capabilities,
    tokenizer,
    vocabulary,
    context,
    cells,
    adapters,
    states: openStates(opened, cells, shape, settings, loaded),
    samplers,
    threads: opened.threads,
    setAborting: opened.setAborting,
    kvUnified,
    tile: tileOf(llama, settings),
    embedder: new Embedder(
      () => openEmbeddings(llama, loaded, shape, settings, dependencies),
      vocabulary,
      {
        tokens: embeddingTokens(settings),
        inputs: inputsPerPass(loaded),
        eachToken: settings.pooling === 'none',
      },
    ),
    grammars: new ConstraintGrammars(loaded.parseGrammar, vocabulary),
    clock,
    journal,
    close,
  })
}

function contextSizeOf(
  { contextSize, kvTokens, rope = {} }: CheckedLlamaCppOptions,
  { trainingContext }: ModelShape,
  logger: Logger,
): number {
  const trained = trainingContext > 0 ? trainingContext : Infinity
  const limit = Math.floor(trained / (rope.freqScale ?? 1))
  if (contextSize !== undefined && contextSize > limit) {
    logger.warn(
      { contextSize, trainingContext },
      `contextSize ${contextSize} is more than the model was trained with: using ${limit}`,
    )
  }
  return Math.min(contextSize ?? kvTokens ?? defaultContextSize, limit)
}

function loadFailure(cause: unknown, path: string): CllmError {
  if (CllmError.isInstance(cause)) return cause
  const message = cause instanceof Error ? cause.message : String(cause)
  // node-llama-cpp's, which is not loaded for this
  if (cause instanceof Error && cause.constructor.name === 'InsufficientMemoryError') {
    return new CllmError('insufficient_memory', `${path} cannot be loaded: ${message}`, { cause })
  }
  return new CllmError('model_invalid', `llama.cpp cannot load ${path}: ${message}`, {
    cause,
    details: { path },
  })
}
