import { setImmediate } from 'node:timers/promises'
import { type Logger, silentLogger, messageOf, entryOf } from '@cllm/core'
import { addonDoor } from './addon/addon-door.js'
import type { FfiDoor } from './ffi/ffi-door.js'
import type { FreeMemory, GpuKind, LlamaRuntime, NativeDoor } from './native.js'
import { gpuKinds } from './open/binaries.js'
import {
  gpuLayersOf,
  hasNoGpu,
  type OpenedLlama,
  openForCpu,
  openForGpu,
} from './open/opened-llama.js'

type GpuSetting = 'auto' | 'off' | GpuKind

/** llama.cpp is opened once per process; what could not be opened is tried again. */
const opened = new Map<string, Promise<OpenedLlama>>()
/** What llama.cpp calls errors when it was asked to end a forward pass: status 1, result 2. */
const ofAborted = /compute.* failed with error 1$|compute status: 1$|failed to decode, ret = 2$/

/** How llama.cpp says why it cannot load a model. */
const ofLoad = /error loading model: (.+)$/
/** Its lines come from other threads: turns of the event loop after which none is to be expected. */
const turnsOfLog = 20

let logger: Logger = silentLogger
/** Why the model could not be loaded that was tried last, first of all. */
const reasons: string[] = []

/**
 * Opens llama.cpp with prebuilt binaries; nothing is ever compiled or downloaded. It stays open as
 * long as the process lives, and its log goes to the logger that came last.
 *
 * @param folder - with packages of libraries for GPUs, as `cllm gpu add` fetches them
 * @throws CllmError `invalid_configuration` when there is no binary for this GPU or machine,
 * `internal` when the addon lacks an export that is used here.
 */
export async function openLlama(
  gpu: GpuSetting,
  lastLogger: Logger,
  folder?: string,
): Promise<LlamaRuntime> {
  logger = lastLogger
  const kinds = gpu === 'off' || (gpu === 'auto' && hasNoGpu()) ? [] : gpuKinds()
  const key = gpu === 'auto' && kinds.length === 0 ? 'off' : gpu
  const opening = entryOf(opened, key, () => openFirst(key, kinds, folder))
  opening.catch(() => opened.delete(key))
  const llama = await opening
  return {
    ...llama,
    compileJinja: (source) => new llama.bindings.AddonJinjaRenderer(source),
    openDoor: async (path, library) =>
      path === 'addon'
        ? addonDoor(llama)
        : // A library that was built here computes on the CPU alone.
          await openFfiDoor(llama, llama.gpu === false ? library : undefined),
  }
}

/** Opens it for the GPU that is asked for, or the first that works here, or the CPU. */
async function openFirst(
  gpu: GpuSetting,
  kinds: readonly GpuKind[],
  folder: string | undefined,
): Promise<OpenedLlama> {
  if (gpu === 'off') return await openForCpu(log)
  if (gpu !== 'auto') return await openForGpu(gpu, log, folder)
  const failures: string[] = []
  for (const kind of kinds) {
    try {
      return await openForGpu(kind, log, folder)
    } catch (error) {
      failures.push((error as Error).message)
    }
  }
  const message =
    'this machine seems to have a GPU, and no library here can use it: the CPU computes'
  logger.warn({ failures }, `${message}. ${failures.join('. ')}`)
  return await openForCpu(log)
}

/** The C API of llama.cpp, or the addon where it cannot be used, as where koffi has no binary. */
async function openFfiDoor(runtime: OpenedLlama, library?: string): Promise<NativeDoor> {
  let door: FfiDoor
  try {
    // Not at the top: where koffi's binary is missing it throws while it is imported.
    const { ffiDoor } = await import('./ffi/ffi-door.js')
    door = ffiDoor(logger, library)
  } catch (error) {
    const reason = messageOf(error)
    logger.warn(
      { reason },
      `llama.cpp's C API cannot be used (${reason}): running on node-llama-cpp's addon, which is slower`,
    )
    return addonDoor(runtime)
  }
  return {
    ...door,
    async loadModel(options) {
      const gpuLayers = await gpuLayersOf(runtime, options)
      reasons.length = 0
      try {
        return await door.loadModel({ ...options, gpuLayers })
      } catch (cause) {
        for (let turn = 0; turn < turnsOfLog && reasons.length === 0; turn++) await setImmediate()
        const [reason] = reasons
        throw reason === undefined ? cause : new Error(reason, { cause })
      }
    },
  }
}

function log(isError: boolean, message: string): void {
  const text = message.trimEnd()
  const [, reason] = ofLoad.exec(text) ?? []
  if (reason !== undefined) reasons.push(reason)
  const isFault = isError && !ofAborted.test(text)
  if (text !== '') logger[isFault ? 'error' : 'debug']({ component: 'llama.cpp' }, text)
}

/**
 * What would compute with this `gpu` setting: the kind of GPU, or false for the CPU.
 * @throws CllmError `invalid_configuration` when there is no such GPU here
 */
export async function gpuInUse(
  gpu: GpuSetting,
  logger: Logger,
  folder?: string,
): Promise<GpuKind | false> {
  return (await openLlama(gpu, logger, folder)).gpu
}

/** The GPUs that would compute. */
export interface GpuDevices {
  readonly kind: GpuKind
  readonly names: readonly string[]
  /** Bytes that are free on all of them together, and of the machine. */
  readonly free: FreeMemory
}

/**
 * The GPUs with this `gpu` setting, and their free memory; undefined: the CPU computes.
 * @throws CllmError `invalid_configuration` when there is no such GPU here
 */
export async function gpuDevices(
  gpu: GpuSetting,
  logger: Logger,
  folder?: string,
): Promise<GpuDevices | undefined> {
  const runtime = await openLlama(gpu, logger, folder)
  if (runtime.gpu === false) return undefined
  const [names, free] = await Promise.all([runtime.gpuNames(), runtime.freeMemory()])
  return { kind: runtime.gpu, names, free }
}
