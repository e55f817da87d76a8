import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { freemem, platform } from 'node:os'
import { dirname } from 'node:path'
import process from 'node:process'
import { CllmError } from '@cllm/core'
import { type Binary, binaryPackages, findBinary, gpuKinds } from '../binaries.js'
import {
  type GpuKind,
  type LlamaRuntime,
  type LoadModelOptions,
  type NativeDoor,
  nodeLlamaCppVersion,
} from '../native.js'
import type { Llama, LlamaLogLevel } from '../node-llama-cpp.js'
import { changed, checkBindings } from './addon-bindings.js'
import { addonDoor } from './addon-door.js'

/** llama.cpp after it was opened. */
export interface OpenedLlama extends Pick<
  LlamaRuntime,
  'gpu' | 'mathCores' | 'freeMemory' | 'gpuNames' | 'compileJinja'
> {
  /** The way to call it that works wherever it was opened: through the addon. */
  door(): NativeDoor
  /** Loads node-llama-cpp itself, which not all uses need. */
  llama(): Promise<Llama>
}

/** Receives a line of llama.cpp's log. */
type LlamaLog = (isError: boolean, message: string) => void

/** The functions of node-llama-cpp's addon that open it. */
interface AddonStart {
  /** Returns whether the addon was already marked as loaded: then a second logger would receive nothing. */
  markLoaded(): boolean
  setLogger(log: (level: number, message: string) => void): void
  setLoggerLogLevel(level: number): void
  loadBackends(folder?: string): void
  getGpuType(): string | false | null | undefined
  ensureGpuDeviceIsSupported(): void
  getMathCores(): number
  getSystemMemoryInfo(): Promise<{ readonly total?: number; readonly wired?: number }>
  init(): Promise<unknown>
}

/** The kernel's device files of GPUs: NVIDIA's (including Jetson's), DRM's, AMD's compute device, and WSL's. */
const devices = ['nvidiactl', 'nvidia0', 'nvhost-ctrl-gpu', 'dri', 'kfd', 'dxg']

/** Two of the addon's log levels, which are: none, fatal, error, warning, information, log, debug. */
const information = 4
const worstErrors = 2

/** Whether this machine certainly has no GPU; only known on Linux. */
export function hasNoGpu(platform = process.platform, exists = existsSync): boolean {
  return platform === 'linux' && !devices.some((name) => exists(`/dev/${name}`))
}

const loadAddon = ({ file }: Binary): object => createRequire(import.meta.url)(file) as object

/**
 * Opens llama.cpp for the CPU with the addon alone: loading node-llama-cpp takes CPU time at each start of an engine,
 * and is only needed for GPUs.
 * @throws CllmError `invalid_configuration` if the library is missing or does not work
 */
export async function openForCpu(log: LlamaLog): Promise<OpenedLlama> {
  const binary = findBinary('cpu')
  if (binary === undefined) throw noCpu()
  const addon = await startAddon(binary, log).catch((cause: unknown) => {
    throw noCpu(cause)
  })
  return {
    gpu: false,
    mathCores: Math.floor(addon.getMathCores()),
    async freeMemory() {
      const { total, wired = 0 } = await addon.getSystemMemoryInfo()
      return { ram: total === undefined ? freemem() : total - wired, vram: 0, unified: false }
    },
    gpuNames: async () => [],
    ...callsOf(
      addon,
      // The addon is initialized already, and a second logger would receive nothing.
      async () => await createLlama({ bindings: addon, bindingPath: binary.file }, log, true),
    ),
  }
}

/** What calls an opened addon. */
function callsOf(addon: unknown, llama: OpenedLlama['llama']) {
  const bindings = checkBindings(addon)
  const compileJinja = (source: string) => new bindings.AddonJinjaRenderer(source)
  return { llama, compileJinja, door: () => addonDoor(bindings, llama) }
}

/** @throws the error of Node.js if it cannot load the file */
async function startAddon(binary: Binary, log: LlamaLog): Promise<AddonStart> {
  const addon = loadAddon(binary) as AddonStart
  if (!addon.markLoaded()) {
    addon.setLogger((level, message) => log(level <= worstErrors, message))
    addon.setLoggerLogLevel(information)
  }
  addon.loadBackends()
  if (addon.getGpuType() === null || addon.getGpuType() === undefined) {
    addon.loadBackends(dirname(binary.file))
  }
  addon.ensureGpuDeviceIsSupported()
  await addon.init()
  return addon
}

/**
 * Opens llama.cpp for a GPU, through node-llama-cpp.
 * @param folder - a further folder in which to look for the library
 * @throws CllmError `invalid_configuration` that says what is missing
 */
export async function openForGpu(
  kind: GpuKind,
  log: LlamaLog,
  folder: string | undefined,
): Promise<OpenedLlama> {
  const binary = gpuKinds().includes(kind) ? findBinary(kind, folder) : undefined
  if (binary === undefined) throw noGpu(kind)
  let llama: Llama
  try {
    const { file: bindingPath, older: extBackendsPath } = binary
    llama = await createLlama({ bindings: loadAddon(binary), bindingPath, extBackendsPath }, log)
    if (llama.gpu !== kind || (await llama.getGpuDeviceNames()).length === 0) {
      await llama.dispose()
      throw new Error('it finds no device')
    }
  } catch (cause) {
    throw noGpu(kind, cause)
  }
  return {
    gpu: kind,
    mathCores: llama.cpuMathCores,
    async freeMemory() {
      const { free: ram } = await llama.getRamState()
      const { free: vram, unifiedSize } = await llama.getVramState()
      return { ram, vram, unified: unifiedSize > 0 }
    },
    gpuNames: async () => await llama.getGpuDeviceNames(),
    ...callsOf((llama as unknown as { _bindings?: unknown })._bindings, async () => llama),
  }
}

/** An addon and the paths of its files, in the form that node-llama-cpp takes. */
interface AddonParts {
  readonly bindings: object
  readonly bindingPath: string
  readonly extBackendsPath?: string | undefined
}

/** Makes node-llama-cpp's `Llama` from a loaded addon. */
async function createLlama(parts: AddonParts, log: LlamaLog, isOpen = false): Promise<Llama> {
  const { Llama, LlamaLogLevel: levels } = await import('../node-llama-cpp.js')
  const create = (Llama as unknown as { _create?: (parts: object) => Promise<Llama> })._create
  if (create === undefined) throw changed('Llama._create')
  return await create.call(Llama, {
    ...parts,
    buildType: 'prebuilt',
    buildMetadata: { buildOptions: { customCmakeOptions: new Map(), llamaCpp: {} } },
    logLevel: levels.info,
    logger: (level: LlamaLogLevel, message: string) =>
      log(level === levels.error || level === levels.fatal, message),
    vramPadding: isOpen ? 0 : paddingOf(0.08, 1.6),
    ramPadding: isOpen ? 0 : paddingOf(0.25, platform() === 'linux' ? 1 : 6),
    skipLlamaInit: isOpen,
  })
}

/** The bytes of a memory to leave free, the same as node-llama-cpp's default. */
const paddingOf =
  (share: number, mostGiB: number): ((bytes: number) => number) =>
  (bytes) =>
    Math.floor(Math.min(bytes * share, mostGiB * 2 ** 30))

function noCpu(cause?: unknown): CllmError {
  const [name] = binaryPackages('cpu')
  const found = cause instanceof Error ? `does not work here (${cause.message})` : 'is not here'
  return new CllmError(
    'invalid_configuration',
    `llama.cpp's library for the CPU ${found}: it comes as an optional dependency; ` +
      `run: npm install ${name}@${nodeLlamaCppVersion}`,
    { cause, details: { field: 'gpu', expected: name } },
  )
}

function noGpu(kind: GpuKind, cause?: unknown): CllmError {
  const known = gpuKinds()
  const message = !known.includes(kind)
    ? `gpu: expected auto, off${known.map((one) => ` or ${one}`).join('')} on this machine, got ${kind}`
    : cause === undefined
      ? `gpu '${kind}' needs a library that is not here; run: cllm gpu add ${kind}`
      : `llama.cpp's library for gpu '${kind}' does not work here (${(cause as Error).message}): it needs ` +
        `the GPU's driver, and for CUDA its runtime and cuBLAS`
  return new CllmError('invalid_configuration', message, {
    cause,
    details: { field: 'gpu', received: kind },
  })
}

/** The layers to put on the GPU; −1: all. For `auto`, node-llama-cpp computes how many fit beside the slots. */
export async function gpuLayersOf(
  runtime: OpenedLlama,
  options: LoadModelOptions,
): Promise<number> {
  const { modelPath, gpuLayers, contextSize, mmap, ignoreMemory = false, gpuReserve = 0 } = options
  if (runtime.gpu === false) return 0
  if (gpuLayers === 'max') return -1
  if (gpuLayers !== 'auto') return gpuLayers
  const { GgufInsights, readGgufFileInfo } = await import('../node-llama-cpp.js')
  const llama = await runtime.llama()
  const insights = await GgufInsights.from(await readGgufFileInfo(modelPath), llama)
  const fit = { fitContext: { contextSize } }
  const resolved = await insights.configurationResolver.resolveModelGpuLayersV2(fit, {
    ignoreMemorySafetyChecks: ignoreMemory,
    useMmap: mmap,
    // the same as node-llama-cpp's default, minus the reserve
    async getVramState() {
      const { total, free } = await llama.getVramState()
      return { total, free: Math.max(0, free - llama.vramPaddingSize - gpuReserve) }
    },
  })
  return resolved.gpuLayers
}
