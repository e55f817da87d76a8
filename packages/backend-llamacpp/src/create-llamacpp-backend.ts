import { availableParallelism } from 'node:os'
import { type Backend, CllmError, type Logger, messageOf } from '@cllm/core'
import {
  type CheckedLlamaCppOptions,
  checkLlamaCppOptions,
  type LlamaCppDependencies,
  type LlamaCppOptions,
} from './llamacpp-options.js'
import { cellsOf, planContext } from './model/memory-plan.js'
import { memoryKind, type ModelShape, readModelShape } from './model/model-shape.js'
import { openBackend } from './model/open-backend.js'
import { type Compile, compileTemplate } from './text/compile-template.js'
import { type ContextSettings, outputsPerPass } from './model/open-context.js'
import type { LlamaRuntime, NativeDoor } from './native/native.js'
import { openLlama } from './native/open-llama.js'
import { chooseThreads, MachineLoad } from './threads/cores.js'

/** Tokens per slot if nothing is set and the model was trained with more. */
const defaultContextSize = 4096

/**
 * Loads a GGUF model into llama.cpp, after a check of the memory for weights and slots. The backend runs one native
 * forward pass per step for all sequences, and draws tokens as llama.cpp's samplers do. With layers on the CPU, the
 * process should be started with `UV_THREADPOOL_SIZE=1`.
 * @throws CllmError `invalid_configuration`, `model_unavailable`, `model_invalid` or
 * `insufficient_memory`
 */
export async function createLlamaCppBackend(
  options: LlamaCppOptions,
  dependencies: LlamaCppDependencies,
): Promise<Backend> {
  const checked = checkLlamaCppOptions(options)
  const library = checked.mediaLibrary ?? dependencies.mediaLibrary
  const shape = await readModelShape(checked.modelPath, library && checked.mmprojPath)
  const contextSize = contextSizeOf(checked, shape, dependencies.logger)
  const llama = await openLlama(checked.gpu, dependencies.logger, dependencies.gpuFolder)
  const { logger, cores = { cores: availableParallelism(), engines: 1 } } = dependencies
  const threads = chooseThreads(checked.threads, llama.mathCores, cores, logger)
  const door = await llama.openDoor(checked.native, dependencies.library)
  door.check(checked)
  const outputs = door.isFull ? outputsPerPass(checked) : checked.batchSize
  const load = new MachineLoad(dependencies.clock) // counted while the model is loaded
  const settings = { ...checked, contextSize, threads, load, outputs }
  return await loadModel(llama, door, shape, settings, dependencies)
}

async function loadModel(
  llama: LlamaRuntime,
  door: NativeDoor,
  shape: ModelShape,
  wanted: ContextSettings,
  dependencies: LlamaCppDependencies,
): Promise<Backend> {
  const { plan, settings } = await planContext(llama, shape, wanted, dependencies, door.isFull)
  const { modelPath, ignoreMemoryCheck: ignoreMemory, mmprojOffload } = settings
  const gpuReserve = mmprojOffload ? plan.projector : 0
  const loaded = await door
    .loadModel({ ...settings, ignoreMemory, contextSize: cellsOf(settings), gpuReserve })
    .catch((cause: unknown) => {
      throw loadFailure(cause, modelPath)
    })
  const close = () => loaded.dispose()
  const model = {
    llama,
    door,
    loaded,
    memoryBytes: plan.total,
    shape: { ...shape, ...memoryKind(loaded.native, shape) },
  }
  try {
    return await openBackend(model, settings, { ...dependencies, close })
  } catch (error) {
    await close()
    throw error
  }
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
  const message = messageOf(cause)
  // compared by name, as node-llama-cpp is not loaded just for its class
  if (cause instanceof Error && cause.constructor.name === 'InsufficientMemoryError') {
    return new CllmError('insufficient_memory', `${path} cannot be loaded: ${message}`, { cause })
  }
  return new CllmError('model_invalid', `llama.cpp cannot load ${path}: ${message}`, {
    cause,
    details: { path },
  })
}

/**
 * Makes a compiler of chat templates that works as a backend's, but needs no model.
 *
 * @throws CllmError as {@link createLlamaCppBackend} if there is no binary of llama.cpp
 */
export async function createTemplateCompiler(logger: Logger): Promise<Compile> {
  const llama = await openLlama('off', logger)
  return (source) => compileTemplate(source, (text) => llama.compileJinja(text))
}
