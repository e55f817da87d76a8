import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import process from 'node:process'
import type { Binary } from './binaries.js'

/** What is called on node-llama-cpp's addon to open it. */
interface AddonStart {
  /** Whether it was before: a second logger would get nothing. */
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

/** node-llama-cpp's addon, opened for the CPU. */
export interface CpuAddon {
  /** Its exports. */
  readonly bindings: object
  readonly mathCores: number
  /** Bytes of RAM that are not locked; undefined: not known. */
  freeRam(): Promise<number | undefined>
}

/** What the kernel shows of a GPU: NVIDIA's (of Jetsons, too), DRM's, AMD's compute, that of WSL. */
const devices = ['nvidiactl', 'nvidia0', 'nvhost-ctrl-gpu', 'dri', 'kfd', 'dxg']

/** Of the addon's levels: none, fatal, error, warning, information, log, debug. */
const information = 4
const worstErrors = 2

/** Whether this machine surely has no GPU; known on Linux alone. */
export function hasNoGpu(platform = process.platform, exists = existsSync): boolean {
  return platform === 'linux' && !devices.some((name) => exists(`/dev/${name}`))
}

/** Loads an addon. */
export function loadAddon({ file }: Binary): object {
  return createRequire(import.meta.url)(file) as object
}

/**
 * Opens the addon alone: loading node-llama-cpp takes CPU time at each start of an engine, and is of use for GPUs.
 * @throws what Node.js says of a file that it cannot load
 */
export async function openCpuAddon(
  binary: Binary,
  log: (isError: boolean, message: string) => void,
): Promise<CpuAddon> {
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
  return {
    bindings: addon,
    mathCores: Math.floor(addon.getMathCores()),
    async freeRam() {
      const { total, wired = 0 } = await addon.getSystemMemoryInfo()
      return total === undefined ? undefined : total - wired
    },
  }
}
