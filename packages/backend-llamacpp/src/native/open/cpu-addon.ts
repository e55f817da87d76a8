import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import process from 'node:process'

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
  readonly file: string
  /** Its exports. */
  readonly bindings: object
  readonly mathCores: number
  /** Bytes of RAM that are not locked; undefined: not known. */
  freeRam(): Promise<number | undefined>
}

const binaries: Readonly<Partial<Record<string, string>>> = {
  x64: 'linux-x64',
  arm64: 'linux-arm64',
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

/**
 * Opens the addon alone: importing node-llama-cpp, which tests the addon in a process of its own
 * first, takes more than a second of CPU time at each start of an engine, and is of use for GPUs.
 *
 * @returns undefined where this way is not known or fails: node-llama-cpp then knows why
 */
export async function openCpuAddon(
  log: (isError: boolean, message: string) => void,
): Promise<CpuAddon | undefined> {
  const name = process.platform === 'linux' ? binaries[process.arch] : undefined
  if (name === undefined) return undefined
  try {
    const require = createRequire(createRequire(import.meta.url).resolve('node-llama-cpp'))
    const folder = join(dirname(require.resolve(`@node-llama-cpp/${name}`)), '..', 'bins', name)
    const file = join(folder, 'llama-addon.node')
    const addon = require(file) as AddonStart
    if (!addon.markLoaded()) {
      addon.setLogger((level, message) => log(level <= worstErrors, message))
      addon.setLoggerLogLevel(information)
    }
    addon.loadBackends()
    if (addon.getGpuType() === null || addon.getGpuType() === undefined) addon.loadBackends(folder)
    addon.ensureGpuDeviceIsSupported()
    if (addon.getGpuType() !== false) return undefined
    await addon.init()
    return {
      file,
      bindings: addon,
      mathCores: Math.floor(addon.getMathCores()),
      async freeRam() {
        const { total, wired = 0 } = await addon.getSystemMemoryInfo()
        return total === undefined ? undefined : total - wired
      },
    }
  } catch {
    return undefined
  }
}
