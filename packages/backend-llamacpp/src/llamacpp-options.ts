import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { isQuantized, type KvCacheType, kvCacheTypes } from './model/kv-cache-type.js'
import type {
  GpuKind,
  NativePath,
  PlacementOptions,
  PoolingType,
  RopeOptions,
} from './native/native.js'
import { poolingTypes } from './native/pooling-types.js'

/** The largest number of sequences in one llama.cpp context. */
export const maxSlots = 256

/** Settings of the llama.cpp backend. Everything but the file has a default. */
export interface LlamaCppOptions {
  /** The GGUF file; of a model in several files, the first. */
  readonly modelPath: string
  /** The name that clients see; by default the file's name without `.gguf`. */
  readonly modelId?: string
  /**
   * Threads of a forward pass. By default their number follows the machine: it starts as `threadsFor`
   * says, and goes up to the physical performance cores while other processes leave them free. More
   * than the logical cores of this process become as many, with a warning.
   */
  readonly threads?: number
  /** What computes. `auto` (default) is the best of what this machine has. */
  readonly gpu?: 'auto' | 'off' | GpuKind
  /** Layers on the GPU: a number, `max`, or `auto` (default): as many as fit beside the slots. */
  readonly gpuLayers?: number | 'auto' | 'max'
  /** Sequences in memory at once, 1 to 256; default 8. Each costs `contextSize` cells. */
  readonly slots?: number
  /**
   * Tokens per slot; by default the smaller of 4,096 (with `kvTokens`: of that) and the training
   * context. What is larger than the training context becomes that, with a warning.
   */
  readonly contextSize?: number
  /** Tokens per step over all sequences; default 512, at least `slots`. */
  readonly batchSize?: number
  /** Keys and values; default `f16`. Quantized ones, such as `q8_0`, half as large, need flash attention. */
  readonly kvCacheType?: KvCacheType
  /** Default `auto`: where the model allows it. */
  readonly flashAttention?: boolean | 'auto'
  /** Maps the file instead of reading it, so that processes share it; default true. */
  readonly mmap?: boolean
  /** Keeps the weights from being swapped out; default false. */
  readonly mlock?: boolean
  /** A chat template in Jinja that replaces the model's own. */
  readonly chatTemplate?: string
  /** Whether the model thinks where a client does not say; default: as its template does by itself. */
  readonly reasoning?: boolean
  /** Loads even when the memory does not seem to suffice; default false. */
  readonly ignoreMemoryCheck?: boolean
  /**
   * How llama.cpp is reached: through the C API (`ffi`, default) of the library that was built on this
   * machine, if the caller has one, or else of node-llama-cpp's libraries; through the C API of these in
   * any case (`prebuilt`); or through node-llama-cpp's addon (`addon`), which is slower and knows none of
   * the settings below. Where the C API cannot be used it becomes `addon`, with a warning, unless a
   * setting needs it.
   */
  readonly native?: NativePath | 'prebuilt'
  /** Tokens that are computed at once, at most `batchSize`, which is the default. */
  readonly ubatchSize?: number
  /**
   * Whether all slots share their KV cells: then a step is one pass over the weights, and a copied
   * prefix takes no memory. `auto` (default), with layers on a GPU: whichever computes the steps that the
   * model had when it was loaded before in less time, as measured when it is loaded again; otherwise off.
   * `measured`: so on CPUs, too.
   */
  readonly kvUnified?: 'auto' | 'measured' | 'on' | 'off'
  /**
   * Tokens that all slots hold together: one pool of KV cells, from which each request takes what it
   * needs, up to `contextSize`. Makes `kvUnified` on. Default: each slot has cells for `contextSize`
   * tokens.
   */
  readonly kvTokens?: number
  /**
   * How the tokens of a text become its embedding; default: as the model says, else `last`. `none` gives
   * the vector of each token, of any length.
   */
  readonly pooling?: PoolingType
  /** How positions are stretched beyond the training context; default: as the model says. */
  readonly rope?: RopeOptions
  /** Which devices hold which weights; default: all GPUs by layers. */
  readonly placement?: PlacementOptions
  /** How long threads poll for the next pass before they sleep, 0 to 100; default 50. */
  readonly poll?: number
}

/** {@link LlamaCppOptions} with the defaults that do not depend on model or machine. */
export type CheckedLlamaCppOptions = LlamaCppOptions &
  Required<
    Omit<
      LlamaCppOptions,
      | 'modelId'
      | 'threads'
      | 'contextSize'
      | 'chatTemplate'
      | 'reasoning'
      | 'ubatchSize'
      | 'kvTokens'
      | 'pooling'
      | 'rope'
      | 'placement'
    >
  >

const optional = <T extends z.ZodType>(type: T) => z.exactOptional(type)

/** Checks {@link LlamaCppOptions} and fills in defaults. */
export const llamaCppOptionsSchema = z
  .strictObject({
    modelPath: z.string().min(1),
    modelId: optional(z.string().min(1)),
    threads: optional(z.int().min(1).max(512)),
    gpu: z.enum(['auto', 'off', 'metal', 'cuda', 'vulkan']).default('auto'),
    gpuLayers: z.union([z.int().min(0), z.enum(['auto', 'max'])]).default('auto'),
    slots: z.int().min(1).max(maxSlots).default(8),
    contextSize: optional(z.int().min(1)),
    batchSize: z.int().min(1).max(65_536).default(512),
    kvCacheType: z.enum(kvCacheTypes).default('f16'),
    flashAttention: z.union([z.boolean(), z.literal('auto')]).default('auto'),
    mmap: z.boolean().default(true),
    mlock: z.boolean().default(false),
    chatTemplate: optional(z.string().min(1)),
    reasoning: optional(z.boolean()),
    ignoreMemoryCheck: z.boolean().default(false),
    native: z.enum(['ffi', 'prebuilt', 'addon']).default('ffi'),
    ubatchSize: optional(z.int().min(1)),
    kvUnified: z.enum(['auto', 'measured', 'on', 'off']).default('auto'),
    kvTokens: optional(z.int().min(1)),
    pooling: optional(z.enum(poolingTypes)),
    rope: optional(
      z.strictObject({
        scaling: optional(z.enum(['none', 'linear', 'yarn'])),
        freqBase: optional(z.number().positive()),
        freqScale: optional(z.number().positive()),
        yarnOriginalContext: optional(z.int().min(1)),
      }),
    ),
    placement: optional(
      z.strictObject({
        devices: optional(z.array(z.string().min(1)).min(1)),
        splitMode: optional(z.enum(['none', 'layer', 'row'])),
        mainGpu: optional(z.int().min(0)),
        tensorSplit: optional(z.array(z.number().min(0)).min(1).max(16)),
        overrideTensors: optional(
          z.array(z.strictObject({ pattern: z.string().min(1), device: z.string().min(1) })),
        ),
      }),
    ),
    poll: z.int().min(0).max(100).default(50),
  })
  .refine((options) => options.batchSize >= options.slots, {
    path: ['batchSize'],
    error: ({ input }) => {
      const { batchSize, slots } = input as { batchSize: number; slots: number }
      return `expected at least one token per slot (${slots}), got ${batchSize}`
    },
  })
  .refine((options) => !isQuantized(options.kvCacheType) || options.flashAttention !== false, {
    path: ['flashAttention'],
    error: ({ input }) => {
      const { kvCacheType } = input as { kvCacheType: string }
      return `kvCacheType '${kvCacheType}' needs flash attention: expected true or 'auto', got false`
    },
  })
  .refine(({ kvTokens, kvUnified }) => kvTokens === undefined || kvUnified !== 'off', {
    path: ['kvUnified'],
    error: "kvTokens is one pool for all slots: expected kvUnified 'on' or 'auto', got 'off'",
  })
  .refine(({ kvTokens, contextSize }) => (contextSize ?? 0) <= (kvTokens ?? Infinity), {
    path: ['kvTokens'],
    error: ({ input }) => {
      const { kvTokens, contextSize } = input as { kvTokens: number; contextSize: number }
      return `expected at least contextSize (${contextSize}), got ${kvTokens}`
    },
  })
  .refine((options) => options.native !== 'addon' || ffiOptionsOf(options).length === 0, {
    path: ['native'],
    error:
      "ubatchSize, kvUnified, kvTokens, pooling, rope, placement, poll and kvCacheTypes other than 'f16' " +
      "and 'q8_0' need native 'ffi', got 'addon'",
  })

interface FfiOptions {
  readonly kvCacheType: KvCacheType
  readonly kvUnified: string
  readonly poll: number
  readonly ubatchSize?: unknown
  readonly kvTokens?: unknown
  readonly pooling?: unknown
  readonly rope?: unknown
  readonly placement?: unknown
}

/** The names of the options that the addon does not have. */
function ffiOptionsOf(options: FfiOptions): string[] {
  const { kvCacheType, kvUnified, poll, ubatchSize, kvTokens, pooling, rope, placement } = options
  const given = Object.entries({ ubatchSize, kvTokens, pooling, rope, placement })
  return [
    ...given.filter(([, option]) => option !== undefined).map(([name]) => name),
    ...(kvCacheType === 'f16' || kvCacheType === 'q8_0' ? [] : ['kvCacheType']),
    ...(['on', 'measured'].includes(kvUnified) && kvTokens === undefined ? ['kvUnified'] : []),
    ...(poll === 50 ? [] : ['poll']),
  ]
}

/**
 * The same options for the addon, where the C API cannot be used.
 * @throws CllmError `invalid_configuration` that names those which the addon does not have: it would
 * give other answers, or fail later
 */
export function forAddon<Options extends FfiOptions>(
  options: Options,
): Options & { readonly native: 'addon' } {
  const names = ffiOptionsOf(options)
  if (names.length === 0) return { ...options, native: 'addon' }
  const message = `${names.join(', ')}: expected llama.cpp's C API, which cannot be used here: the log says why`
  throw new CllmError('invalid_configuration', message, { details: { field: names[0] } })
}

/**
 * Checks options and fills in defaults.
 * @throws CllmError `invalid_configuration` that names every wrong option.
 */
export function checkLlamaCppOptions(options: LlamaCppOptions): CheckedLlamaCppOptions {
  const result = llamaCppOptionsSchema.safeParse(options)
  if (result.success) {
    const isPool = result.data.kvTokens !== undefined
    return isPool ? { ...result.data, kvUnified: 'on' } : result.data
  }
  throw new CllmError(
    'invalid_configuration',
    `options of the llama.cpp backend: ${z.prettifyError(result.error).replaceAll('\n', ' ')}`,
    { details: { issues: result.error.issues.map(({ path, message }) => ({ path, message })) } },
  )
}
