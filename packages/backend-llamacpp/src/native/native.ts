import type { CheckedLlamaCppOptions, PlacementOptions } from '../llamacpp-options.js'
import type {
  LogitsContext,
  NativeAdapter,
  NativeContext,
  NativeContextOptions,
} from './native-context.js'
import type { NativeModel } from './native-model.js'

/** Where llama.cpp computes. */
export type GpuKind = 'metal' | 'cuda' | 'vulkan'

/** Free memory in bytes. */
export interface FreeMemory {
  readonly ram: number
  /** 0 without a GPU. */
  readonly vram: number
  /** Whether the GPU's memory is a part of the RAM. */
  readonly unified: boolean
}

/** How much of a model GPUs compute. */
export type GpuShare = 'none' | 'some' | 'all'

/** A model in memory. */
export interface LoadedModel {
  readonly native: NativeModel
  /** How many tokens the file has. */
  readonly vocabularySize: number
  readonly chatTemplate: string | undefined
  /** Layers on the GPU. */
  readonly gpuLayers: number
  readonly onGpu: GpuShare
  /** Inputs that one pass of embeddings takes. */
  readonly embeddingInputs: number
  /** Undefined when the memory cannot be had, or the KV type needs flash attention that is missing. */
  createContext(options: NativeContextOptions): Promise<NativeContext | undefined>
  /** Reads an adapter; undefined when llama.cpp cannot, and its log says why. */
  loadAdapter?(this: void, path: string): Promise<NativeAdapter | undefined>
  dispose(): Promise<void>
}

/** A model whose contexts give their logits out. */
export interface LogitsModel extends LoadedModel {
  createContext(options: NativeContextOptions): Promise<LogitsContext | undefined>
  loadAdapter(this: void, path: string): Promise<NativeAdapter | undefined>
}

/** The setting of the way to llama.cpp. */
export type NativePath = CheckedLlamaCppOptions['native']

/** A way to llama.cpp: the C API of its libraries, or node-llama-cpp's addon. */
export interface NativeDoor {
  /** What computes: the library that was built on this machine, node-llama-cpp's, or its addon. */
  readonly name: 'built' | 'prebuilt' | 'addon'
  /** Whether slots can share their cells, and passes have room for fewer logits than tokens. */
  readonly isFull: boolean
  /** @throws CllmError `invalid_configuration` that names options which this way does not have */
  check(options: CheckedLlamaCppOptions): void
  /** @throws what llama.cpp says in its log, or an Error that points there */
  loadModel(options: LoadModelOptions): Promise<LoadedModel>
}

/** How a model is loaded. */
export interface LoadModelOptions {
  readonly modelPath: string
  /** `auto` leaves room for `contextSize` cells. */
  readonly gpuLayers: number | 'auto' | 'max'
  readonly contextSize: number
  readonly mmap: boolean
  readonly mlock: boolean
  /** Loads even when the memory does not seem to suffice; default false. */
  readonly ignoreMemory?: boolean
  readonly placement?: PlacementOptions
  /** Bytes of the GPUs that `auto` leaves to another process; default 0. */
  readonly gpuReserve?: number
}

/** A compiled chat template. */
export interface JinjaTemplate {
  /** Throws where the template refuses the values. */
  render(values: Record<string, unknown>): string
}

/** llama.cpp, opened for one kind of GPU or none. */
export interface LlamaRuntime {
  readonly gpu: GpuKind | false
  /** Cores that are useful for matrix multiplication. */
  readonly mathCores: number
  freeMemory(): Promise<FreeMemory>
  /** The names of the GPUs. */
  gpuNames(): Promise<readonly string[]>
  /** Compiles a template with llama.cpp's own Jinja. Throws when it is none. */
  compileJinja(source: string): JinjaTemplate
  /**
   * Opens a way to llama.cpp: the addon where the C API cannot be used, with a warning.
   *
   * @param library - one that was built on this machine, for the C API where there is no GPU; default:
   * node-llama-cpp's, also where this one cannot be used, with a warning
   */
  openDoor(path: NativePath, library?: string): Promise<NativeDoor>
}

/** The version of node-llama-cpp whose internals this package was written for. */
export const nodeLlamaCppVersion = '3.22.1'

/** What `llama_version()` says in the libraries that node-llama-cpp 3.22.1 ships. */
export const llamaVersion = '0.5.0-dev'
