import type { CheckedLlamaCppOptions, PlacementOptions } from '../llamacpp-options.js'
import type {
  LogitsContext,
  NativeAdapter,
  NativeContext,
  NativeContextOptions,
} from './native-context.js'
import type { NativeModel } from './native-model.js'

/** The kinds of GPUs that llama.cpp can compute on here. */
export type GpuKind = 'metal' | 'cuda' | 'vulkan'

/** Free memory in bytes. */
export interface FreeMemory {
  readonly ram: number
  /** 0 without a GPU. */
  readonly vram: number
  /** Whether the GPU's memory is a part of the RAM. */
  readonly unified: boolean
}

/** How much of a model is computed on GPUs. */
export type GpuShare = 'none' | 'some' | 'all'

/** A model in memory. */
export interface LoadedModel {
  readonly native: NativeModel
  /** The number of tokens in the file's vocabulary. */
  readonly vocabularySize: number
  readonly chatTemplate: string | undefined
  /** Layers on the GPU. */
  readonly gpuLayers: number
  readonly onGpu: GpuShare
  /** The most inputs in one pass of embeddings. */
  readonly embeddingInputs: number
  /** Undefined if the memory cannot be allocated, or the KV type needs flash attention and that is missing. */
  createContext(options: NativeContextOptions): Promise<NativeContext | undefined>
  /** Reads an adapter; undefined if llama.cpp cannot: its log says why. */
  loadAdapter?(this: void, path: string): Promise<NativeAdapter | undefined>
  dispose(): Promise<void>
}

/** A model whose contexts expose their logits. */
export interface LogitsModel extends LoadedModel {
  createContext(options: NativeContextOptions): Promise<LogitsContext | undefined>
  loadAdapter(this: void, path: string): Promise<NativeAdapter | undefined>
}

/** The `native` setting: how llama.cpp is called. */
export type NativePath = CheckedLlamaCppOptions['native']

/** A way to call llama.cpp: through the C API of its libraries, or node-llama-cpp's addon. */
export interface NativeDoor {
  /** The code that computes: the library that was built on this machine, node-llama-cpp's library, or its addon. */
  readonly name: 'built' | 'prebuilt' | 'addon'
  /** Whether slots can share their cells, and a pass can have room for fewer outputs than tokens. */
  readonly isFull: boolean
  /** @throws CllmError `invalid_configuration` that names the options that this way does not support */
  check(options: CheckedLlamaCppOptions): void
  /** @throws Error with the reason from llama.cpp's log, or one that points to the log */
  loadModel(options: LoadModelOptions): Promise<LoadedModel>
}

/** Options of {@link NativeDoor.loadModel}. */
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
  /** Bytes of the GPUs' memory that `auto` leaves free for another process; default 0. */
  readonly gpuReserve?: number
}

/** A compiled chat template. */
export interface JinjaTemplate {
  /** Throws if the template refuses the values. */
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
  /** Compiles a template with llama.cpp's own Jinja. Throws if it is no valid template. */
  compileJinja(source: string): JinjaTemplate
  /**
   * Opens a way to call llama.cpp. If the C API cannot be used, falls back to the addon with a warning.
   *
   * @param library - a library that was built on this machine, for the C API without a GPU; if it cannot be used, falls
   * back to node-llama-cpp's with a warning; default: node-llama-cpp's
   */
  openDoor(path: NativePath, library?: string): Promise<NativeDoor>
}

/** The version of node-llama-cpp whose internals this package was written for. */
export const nodeLlamaCppVersion = '3.22.1'

/** What `llama_version()` says in the libraries that node-llama-cpp 3.22.1 ships. */
export const llamaVersion = '0.5.0-dev'
