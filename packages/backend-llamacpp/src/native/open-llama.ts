import { setImmediate } from 'node:timers/promises'
import { type Logger, silentLogger, messageOf, entryOf } from '@cllm/core'
import {
  gpuLayersOf,
  hasNoGpu,
  type OpenedLlama,
  openForCpu,
  openForGpu,
} from './addon/opened-llama.js'
import type { FfiDoor } from './ffi/ffi-door.js'
import type { FreeMemory, GpuKind, LlamaRuntime, NativeDoor, NativePath } from './native.js'
import { gpuKinds } from './binaries.js'

type GpuSetting = 'auto' | 'off' | GpuKind

/** llama.cpp is opened once per process and setting; failures are retried at the next call. */
const opened = new Map<string, Promise<OpenedLlama>>()
/** What llama.cpp logs as errors after it was asked to abort a forward pass: status 1, result 2. */
const ofAborted = /compute.* failed with error 1$|compute status: 1$|failed to decode, ret = 2$/

/** What it logs as a warning when `--mlock` has no effect, such as beyond `ulimit -l`. */
const ofMlock = /failed to mlock|mlock not supported/

/** llama.cpp's log line with the reason why it cannot load a model. */
const ofLoad = /error loading model: (.+)$/
/** Turns of the event loop to wait for a log line, as these come from other threads. */
const turnsOfLog = 20

let logger: Logger = silentLogger
/** The logged reasons why the last model could not be loaded, the first one first. */
const reasons: string[] = []

/**
 * Opens llama.cpp with prebuilt binaries; nothing is ever compiled or downloaded. It stays open as long as the process
 * lives, and logs to the logger of the latest call.
 *
 * @param folder - a folder with the packages of libraries for GPUs that `cllm gpu add` fetched
 * @throws CllmError `invalid_configuration` if there is no binary for this GPU or machine, `internal` if the addon
 * lacks an export that is used here.
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
  return { ...llama, openDoor: async (path, library) => await doors[path](llama, library) }
}

type OpenDoor = (llama: OpenedLlama, library?: string) => NativeDoor | Promise<NativeDoor>

const doors: Readonly<Record<NativePath, OpenDoor>> = {
  // A library that was built on this machine computes on the CPU only.
  ffi: (llama, library) => openFfiDoor(llama, llama.gpu === false ? library : undefined),
  addon: (llama) => llama.door(),
}

/** Opens llama.cpp for the GPU of the setting; with `auto` for the first kind that works here, or else the CPU. */
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

/** Opens the C API of llama.cpp, or the other way if that cannot be used, such as if koffi has no binary. */
async function openFfiDoor(runtime: OpenedLlama, library?: string): Promise<NativeDoor> {
  let door: FfiDoor
  try {
    // Imported here, as koffi throws at its import if its binary is missing.
    const { ffiDoor } = await import('./ffi/ffi-door.js')
    door = ffiDoor(logger, library)
  } catch (error) {
    const reason = messageOf(error)
    logger.warn(
      { reason },
      `llama.cpp's C API cannot be used (${reason}): running on node-llama-cpp's addon, which is slower`,
    )
    return runtime.door()
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
  const level = isFault ? 'error' : ofMlock.test(text) ? 'warn' : 'debug'
  if (text !== '') logger[level]({ component: 'llama.cpp' }, text)
}

/**
 * What computes with this `gpu` setting: the kind of GPU, or false for the CPU.
 * @throws CllmError `invalid_configuration` if there is no such GPU here
 */
export async function gpuInUse(
  gpu: GpuSetting,
  logger: Logger,
  folder?: string,
): Promise<GpuKind | false> {
  return (await openLlama(gpu, logger, folder)).gpu
}

/** The GPUs that compute with a `gpu` setting. */
export interface GpuDevices {
  readonly kind: GpuKind
  readonly names: readonly string[]
  /** The free memory of all these GPUs together, and of the machine. */
  readonly free: FreeMemory
}

/**
 * The GPUs with this `gpu` setting, and their free memory; undefined: the CPU computes.
 * @throws CllmError `invalid_configuration` if there is no such GPU here
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
