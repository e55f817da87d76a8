import { type BackendContext, CllmError } from '@cllm/core'
import { z } from 'zod'
import { isQuantized, kvCacheTypes } from './model/kv-cache-type.js'
import type { CoreShare } from './threads/cores.js'

/** The largest number of sequences in one llama.cpp context. */
export const maxSlots = 256

/** Ways to pool the vectors of a text's tokens, with llama.cpp's numbers (`LLAMA_POOLING_TYPE_…`). */
export const poolingTypes = { none: 0, mean: 1, cls: 2, last: 3 } as const

/** A way to pool the vectors of a text's tokens into one. A reranker's way, `rank`, comes from its file alone. */
export type PoolingType = keyof typeof poolingTypes

const optional = <T extends z.ZodType>(type: T) => z.exactOptional(type)
const listOf = <T extends z.ZodType>(type: T) => z.array(type).readonly()

/** How positions are stretched beyond the context that a model was trained with. */
const rope = z.strictObject({
  scaling: optional(z.enum(['none', 'linear', 'yarn'])),
  freqBase: optional(z.number().positive()),
  /** Factor on the frequencies: 0.5 doubles the context. */
  freqScale: optional(z.number().positive()),
  /** The context that the model was trained with, for YaRN. */
  yarnOriginalContext: optional(z.int().min(1)),
})

/** The devices that a model's weights go to. */
const placement = z.strictObject({
  /** llama.cpp's names of the devices to use; default: all GPUs. */
  devices: optional(listOf(z.string().min(1)).refine((names) => names.length > 0)),
  splitMode: optional(z.enum(['none', 'layer', 'row'])),
  /** The GPU that is used with `splitMode` `none`. */
  mainGpu: optional(z.int().min(0)),
  /** The share of the weights for each GPU, in relation to the others. */
  tensorSplit: optional(z.array(z.number().min(0)).min(1).max(16).readonly()),
  /** Tensors whose name matches a pattern go to a device. */
  overrideTensors: optional(
    listOf(z.strictObject({ pattern: z.string().min(1), device: z.string().min(1) })),
  ),
})

const options = z.strictObject({
  /** The GGUF file; for a model in several files, the first one. */
  modelPath: z.string().min(1),
  /** The name that clients see; by default the file's name without `.gguf`. */
  modelId: optional(z.string().min(1)),
  /**
   * Threads of a forward pass, at most one per logical core of this process: more are reduced to that, with a warning.
   * By default their number follows the machine's load: it starts with the number from `threadsFor`, and grows to at
   * most the number of physical performance cores while other processes leave them free.
   */
  threads: optional(z.int().min(1).max(512)),
  /** What computes the model; `auto`: the best that this machine has. */
  gpu: z.enum(['auto', 'off', 'metal', 'cuda', 'vulkan']).default('auto'),
  /** Layers on the GPU; `auto`: as many as fit beside the slots. */
  gpuLayers: z.union([z.int().min(0), z.enum(['auto', 'max'])]).default('auto'),
  /** Sequences in memory at once. Each takes `contextSize` KV cells, unless `kvTokens` is set. */
  slots: z.int().min(1).max(maxSlots).default(8),
  /**
   * Tokens per slot, at most the training context: more is reduced to that, with a warning. Default: `kvTokens` if that
   * is set, otherwise 4,096.
   */
  contextSize: optional(z.int().min(1)),
  /** Tokens per step over all sequences, at least `slots`. */
  batchSize: z.int().min(1).max(65_536).default(512),
  /** The number format of keys and values. Quantized formats, such as `q8_0` of half the size, need flash attention. */
  kvCacheType: z.enum(kvCacheTypes).default('f16'),
  /** `auto`: where the model allows it. */
  flashAttention: z.union([z.boolean(), z.literal('auto')]).default('auto'),
  /** Maps the file instead of reading it, so that processes share it. */
  mmap: z.boolean().default(true),
  /** Keeps the weights from being swapped out. */
  mlock: z.boolean().default(false),
  /** A chat template in Jinja that replaces the model's own. */
  chatTemplate: optional(z.string().min(1)),
  /** Whether the model thinks if the client does not say; default: as its template does. */
  reasoning: optional(z.boolean()),
  /** Loads the model even if the memory does not seem to suffice. */
  ignoreMemoryCheck: z.boolean().default(false),
  /**
   * How llama.cpp is called. `ffi` calls its C API: in the library that was built on this machine if the caller has
   * one, otherwise in node-llama-cpp's. `addon` calls node-llama-cpp's addon, which is slower and supports none of the
   * settings below. If the C API cannot be used, `ffi` becomes `addon` with a warning, or fails if a setting needs the
   * C API.
   */
  native: z.enum(['ffi', 'addon']).default('ffi'),
  /** Tokens that are computed at once; at most, and by default, `batchSize`. */
  ubatchSize: optional(z.int().min(1)),
  /**
   * Whether all slots share one pool of KV cells: then a step is one pass over the weights, and a copied prefix takes
   * no memory. Default: `off`, or `on` if the memory does not suffice for each slot's own cells.
   */
  kvUnified: optional(z.enum(['on', 'off'])),
  /**
   * The size in tokens of one pool of KV cells for all slots, from which each request takes what it needs, up to
   * `contextSize`. Turns `kvUnified` on. Default: each slot has its own cells for `contextSize` tokens.
   */
  kvTokens: optional(z.int().min(1)),
  /**
   * How the vectors of a text's tokens are pooled into its embedding; default: as the model says, otherwise `last`.
   * `none` returns the vector of each token, not normalized.
   */
  pooling: optional(z.enum(Object.keys(poolingTypes) as [PoolingType, ...PoolingType[]])),
  /** Default: as the model says. */
  rope: optional(rope),
  /** Default: all GPUs by layers. */
  placement: optional(placement),
  /** The projector of a model that sees or hears: its `mmproj` file. Default: it takes text alone. */
  mmprojPath: optional(z.string().min(1)),
  /** Whether a projector that cannot be used only causes a warning; the model then takes text alone. */
  mmprojOptional: z.boolean().default(false),
  /** Whether the GPU, if one is used, also encodes images and sounds. */
  mmprojOffload: z.boolean().default(true),
  /**
   * llama.cpp's library for images and sounds, `libmtmd` of the same release; default: the one that was built on this
   * machine.
   */
  mediaLibrary: optional(z.string().min(1)),
  /** The size in bytes of the cache of encoded images and sounds. */
  mediaCacheBytes: z.int().min(1).default(268_435_456),
  /**
   * How long threads poll for the next pass before they sleep, 0 to 100. 5 outlast the time between two steps; with
   * llama.cpp's 50 they keep cores from an image's encoder for 0.1 s after the last pass.
   */
  poll: z.int().min(0).max(100).default(5),
  /**
   * Whether a batch gets more tokens, which are removed again, where it then takes less time: idle slots between decodes
   * are computed along, and short chunks become as long as others, or whole tiles of attention.
   */
  padBatches: z.boolean().default(true),
})

/** Checks {@link LlamaCppOptions} and fills in defaults. */
export const llamaCppOptionsSchema = options.superRefine((given, context) => {
  const { batchSize, slots, contextSize, kvTokens, kvUnified, kvCacheType } = given
  const refuseIf = (isWrong: boolean, option: keyof typeof given, message: string): void => {
    if (isWrong) context.addIssue({ code: 'custom', path: [option], message })
  }
  refuseIf(
    batchSize < slots,
    'batchSize',
    `expected at least one token per slot (${slots}), got ${batchSize}`,
  )
  refuseIf(
    isQuantized(kvCacheType) && given.flashAttention === false,
    'flashAttention',
    `kvCacheType '${kvCacheType}' needs flash attention: expected true or 'auto', got false`,
  )
  refuseIf(
    kvTokens !== undefined && kvUnified === 'off',
    'kvUnified',
    "kvTokens is one pool for all slots: expected kvUnified 'on', got 'off'",
  )
  refuseIf(
    (contextSize ?? 0) > (kvTokens ?? Infinity),
    'kvTokens',
    `expected at least contextSize (${contextSize}), got ${kvTokens}`,
  )
  refuseIf(
    given.native === 'addon' && unknownToAddon(given).length > 0,
    'native',
    "ubatchSize, kvUnified, kvTokens, pooling, rope, placement, poll and kvCacheTypes other than 'f16' " +
      "and 'q8_0' need native 'ffi', got 'addon'",
  )
})

/** The names of the given options that the addon does not support. */
export function unknownToAddon(given: z.output<typeof options>): string[] {
  const { kvCacheType, kvUnified, kvTokens, poll, ubatchSize, pooling, rope, placement } = given
  const names = Object.entries({ ubatchSize, kvTokens, pooling, rope, placement })
    .filter(([, option]) => option !== undefined)
    .map(([name]) => name)
  if (kvCacheType !== 'f16' && kvCacheType !== 'q8_0') names.push('kvCacheType')
  if (kvUnified === 'on' && kvTokens === undefined) names.push('kvUnified')
  if (poll !== 5) names.push('poll')
  return names
}

/** Settings of the llama.cpp backend. Everything but the file has a default. */
export type LlamaCppOptions = Readonly<z.input<typeof options>>

/** {@link LlamaCppOptions} after the check, with all defaults that depend on neither model nor machine. */
export type CheckedLlamaCppOptions = Readonly<z.output<typeof options>>

/** How positions are stretched beyond the training context; see {@link LlamaCppOptions}. */
export type RopeOptions = Readonly<z.output<typeof rope>>

/** The devices that a model's weights go to; see {@link LlamaCppOptions}. */
export type PlacementOptions = Readonly<z.output<typeof placement>>

/**
 * Checks options and fills in defaults.
 * @throws CllmError `invalid_configuration` that names every wrong option.
 */
export function checkLlamaCppOptions(given: LlamaCppOptions): CheckedLlamaCppOptions {
  const result = llamaCppOptionsSchema.safeParse(given)
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

/** Services and limits that the caller provides. */
export interface LlamaCppDependencies extends BackendContext {
  /**
   * Bytes of RAM that this process may still take, if something such as a container limits it to less than the
   * machine's free memory.
   */
  readonly availableMemory?: () => number
  /** The CPU cores to compute on; default: all cores available to the process, for this engine alone. */
  readonly cores?: CoreShare
  /**
   * The file of a library that `cllm native build` made for this machine; used on the CPU with `native: 'ffi'`. A
   * library for another CPU can end the process. Default: node-llama-cpp's.
   */
  readonly library?: string | undefined
  /** The file of the library for images and sounds (`libmtmd`) that was built for this machine. Default: none. */
  readonly mediaLibrary?: string | undefined
  /** A folder whose `node_modules` contain the libraries for GPUs that `cllm gpu add` fetched. Default: none. */
  readonly gpuFolder?: string | undefined
}
