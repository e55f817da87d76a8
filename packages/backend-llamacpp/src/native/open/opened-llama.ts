import { freemem } from 'node:os'
import { CllmError } from '@cllm/core'
import { type Bindings, changed, checkBindings } from './addon-bindings.js'
import { type CpuAddon, openCpuAddon } from './cpu-addon.js'
import type { GpuKind, LlamaRuntime } from '../native.js'
import type { Llama, LlamaLogLevel } from '../node-llama-cpp.js'

/** llama.cpp as it was opened. */
export interface OpenedLlama extends Pick<
  LlamaRuntime,
  'gpu' | 'mathCores' | 'freeMemory' | 'gpuNames'
> {
  readonly bindings: Bindings
  /** node-llama-cpp itself, which is loaded where it is needed. */
  llama(): Promise<Llama>
}

/** Where a line of llama.cpp's log goes. */
export type LlamaLog = (isError: boolean, message: string) => void

/** Opens llama.cpp for the CPU, without loading node-llama-cpp where the addon alone will do. */
export async function openForCpu(log: LlamaLog): Promise<OpenedLlama> {
  const addon = await openCpuAddon(log)
  if (addon === undefined) return await openWhole('off', log)
  return {
    gpu: false,
    mathCores: addon.mathCores,
    bindings: checkBindings(addon.bindings),
    freeMemory: async () => ({
      ram: (await addon.freeRam()) ?? freemem(),
      vram: 0,
      unified: false,
    }),
    gpuNames: async () => [],
    llama: async () => await llamaOn(addon, log),
  }
}

/** node-llama-cpp on an addon that is open. */
async function llamaOn({ file, bindings }: CpuAddon, log: LlamaLog): Promise<Llama> {
  const { Llama, LlamaLogLevel } = await import('../node-llama-cpp.js')
  const create = (Llama as unknown as { _create?: (parts: object) => Promise<Llama> })._create
  if (create === undefined) throw changed('Llama._create')
  return await create.call(Llama, {
    bindings,
    bindingPath: file,
    buildType: 'prebuilt',
    buildMetadata: { buildOptions: { customCmakeOptions: new Map(), llamaCpp: {} } },
    ...logging(LlamaLogLevel, log),
    vramPadding: 0,
    ramPadding: 0,
    // it has been done, and a second logger would get nothing
    skipLlamaInit: true,
  })
}

/** Opens it through node-llama-cpp, which knows GPUs. */
export async function openWhole(
  gpu: 'auto' | 'off' | GpuKind,
  log: LlamaLog,
): Promise<OpenedLlama> {
  const llama = await openNodeLlamaCpp(gpu, log)
  return {
    gpu: llama.gpu,
    mathCores: llama.cpuMathCores,
    bindings: bindingsOf(llama),
    async freeMemory() {
      const { free: ram } = await llama.getRamState()
      if (llama.gpu === false) return { ram, vram: 0, unified: false }
      const { free: vram, unifiedSize } = await llama.getVramState()
      return { ram, vram, unified: unifiedSize > 0 }
    },
    gpuNames: async () => (llama.gpu === false ? [] : await llama.getGpuDeviceNames()),
    llama: () => Promise.resolve(llama),
  }
}

async function openNodeLlamaCpp(gpu: 'auto' | 'off' | GpuKind, log: LlamaLog): Promise<Llama> {
  const { getLlama, LlamaLogLevel } = await import('../node-llama-cpp.js')
  try {
    const llama = await getLlama({
      gpu: gpu === 'off' ? false : gpu,
      build: 'never',
      skipDownload: true,
      progressLogs: false,
      ...logging(LlamaLogLevel, log),
    })
    if (gpu === 'auto' || gpu === 'off' || llama.gpu === gpu) return llama
    await llama.dispose()
  } catch (cause) {
    throw noGpu(gpu, cause)
  }
  throw noGpu(gpu)
}

/** The options of both ways for its log. */
const logging = (levels: typeof LlamaLogLevel, log: LlamaLog) => ({
  logLevel: levels.info,
  logger: (level: LlamaLogLevel, message: string) =>
    log(level === levels.error || level === levels.fatal, message),
})

/** The addon's exports, as node-llama-cpp holds them. */
export function bindingsOf(llama: Llama): Bindings {
  return checkBindings((llama as unknown as { _bindings?: unknown })._bindings)
}

function noGpu(gpu: string, cause?: unknown): CllmError {
  return new CllmError(
    'invalid_configuration',
    `llama.cpp has no working binary here for gpu '${gpu}'; install the package ` +
      `@node-llama-cpp/… of this platform and the libraries that it needs (CUDA's runtime and cuBLAS), ` +
      `or choose gpu 'off' or 'auto'`,
    { cause, details: { field: 'gpu', received: gpu } },
  )
}
