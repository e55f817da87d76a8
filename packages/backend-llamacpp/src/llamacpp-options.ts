import { CllmError, type Clock, type Logger } from '@cllm/core'
import { z } from 'zod'
import { isQuantized, kvCacheTypes } from './model/kv-cache-type.js'
import type { CoreShare } from './threads/cores.js'

/** The largest number of sequences in one llama.cpp context. */
export const maxSlots = 256

/** How the vectors of a text's tokens become one, in llama.cpp's numbers (`LLAMA_POOLING_TYPE_…`). */
export const poolingTypes = { none: 0, mean: 1, cls: 2, last: 3 } as const

/** A way to make one vector of a text's tokens; a model that compares texts says so itself. */
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

/** Where a model's weights go. */
const placement = z.strictObject({
  /** Names of devices, as llama.cpp has them; default: all GPUs. */
  devices: optional(listOf(z.string().min(1)).refine((names) => names.length > 0)),
  splitMode: optional(z.enum(['none', 'layer', 'row'])),
  /** The GPU that is used with `splitMode` `none`. */
  mainGpu: optional(z.int().min(0)),
  /** Each GPU's share. */
  tensorSplit: optional(z.array(z.number().min(0)).min(1).max(16).readonly()),
  /** Tensors whose name matches a pattern go to a device. */
  overrideTensors: optional(
    listOf(z.strictObject({ pattern: z.string().min(1), device: z.string().min(1) })),
  ),
})

const options = z.strictObject({
  /** The GGUF file; of a model in several files, the first. */
  modelPath: z.string().min(1),
  /** The name that clients see; by default the file's name without `.gguf`. */
  modelId: optional(z.string().min(1)),
  /**
   * Threads of a forward pass. By default their number follows the machine: it starts as `threadsFor`
   * says, and goes up to the physical performance cores while other processes leave them free. More
   * than the logical cores of this process become as many, with a warning.
   */
  threads: optional(z.int().min(1).max(512)),
  /** What computes. `auto` is the best of what this machine has. */
  gpu: z.enum(['auto', 'off', 'metal', 'cuda', 'vulkan']).default('auto'),
  /** Layers on the GPU; `auto`: as many as fit beside the slots. */
  gpuLayers: z.union([z.int().min(0), z.enum(['auto', 'max'])]).default('auto'),
  /** Sequences in memory at once. Each costs `contextSize` cells. */
  slots: z.int().min(1).max(maxSlots).default(8),
  /**
   * Tokens per slot; by default the smaller of 4,096 (with `kvTokens`: of that) and the training
   * context. What is larger than the training context becomes that, with a warning.
   */
  contextSize: optional(z.int().min(1)),
  /** Tokens per step over all sequences, at least `slots`. */
  batchSize: z.int().min(1).max(65_536).default(512),
  /** Keys and values. Quantized ones, such as `q8_0`, half as large, need flash attention. */
  kvCacheType: z.enum(kvCacheTypes).default('f16'),
  /** `auto`: where the model allows it. */
  flashAttention: z.union([z.boolean(), z.literal('auto')]).default('auto'),
  /** Maps the file instead of reading it, so that processes share it. */
  mmap: z.boolean().default(true),
  /** Keeps the weights from being swapped out. */
  mlock: z.boolean().default(false),
  /** A chat template in Jinja that replaces the model's own. */
  chatTemplate: optional(z.string().min(1)),
  /** Whether the model thinks where a client does not say; default: as its template does by itself. */
  reasoning: optional(z.boolean()),
  /** Loads even when the memory does not seem to suffice. */
  ignoreMemoryCheck: z.boolean().default(false),
  /**
   * How llama.cpp is reached: through its C API (`ffi`), in the library that was built on this machine if
   * the caller has one, or else in node-llama-cpp's; or through node-llama-cpp's addon (`addon`), which is
   * slower and knows none of the settings below. Where the C API cannot be used it becomes `addon`, with a
   * warning, unless a setting needs it.
   */
  native: z.enum(['ffi', 'addon']).default('ffi'),
  /** Tokens that are computed at once, at most `batchSize`, which is the default. */
  ubatchSize: optional(z.int().min(1)),
  /**
   * Whether all slots share their KV cells: then a step is one pass over the weights, and a copied
   * prefix takes no memory. Default: `off`, and `on` where the memory does not suffice for that.
   */
  kvUnified: optional(z.enum(['on', 'off'])),
  /**
   * Tokens that all slots hold together: one pool of KV cells, from which each request takes what it
   * needs, up to `contextSize`. Makes `kvUnified` on. Default: each slot has cells for `contextSize`
   * tokens.
   */
  kvTokens: optional(z.int().min(1)),
  /**
   * How the tokens of a text become its embedding; default: as the model says, else `last`. `none` gives
   * the vector of each token, of any length.
   */
  pooling: optional(z.enum(Object.keys(poolingTypes) as [PoolingType, ...PoolingType[]])),
  /** Default: as the model says. */
  rope: optional(rope),
  /** Default: all GPUs by layers. */
  placement: optional(placement),
  /** The projector of a model that sees or hears: its `mmproj` file. Default: it takes text alone. */
  mmprojPath: optional(z.string().min(1)),
  /** Whether the model takes text alone, with a warning, where its projector cannot be used. */
  mmprojOptional: z.boolean().default(false),
  /** Whether the GPU that computes encodes images and sounds, too. */
  mmprojOffload: z.boolean().default(true),
  /** llama.cpp's library for images and sounds, `libmtmd` of the same release; default: the one that was built on this machine. */
  mediaLibrary: optional(z.string().min(1)),
  /** Bytes of encoded images and sounds that are kept. */
  mediaCacheBytes: z.int().min(1).default(268_435_456),
  /** How long threads poll for the next pass before they sleep, 0 to 100. */
  poll: z.int().min(0).max(100).default(50),
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

/** The names of given options that the addon does not have. */
export function unknownToAddon(given: z.output<typeof options>): string[] {
  const { kvCacheType, kvUnified, kvTokens, poll, ubatchSize, pooling, rope, placement } = given
  const names = Object.entries({ ubatchSize, kvTokens, pooling, rope, placement })
    .filter(([, option]) => option !== undefined)
    .map(([name]) => name)
  if (kvCacheType !== 'f16' && kvCacheType !== 'q8_0') names.push('kvCacheType')
  if (kvUnified === 'on' && kvTokens === undefined) names.push('kvUnified')
  if (poll !== 50) names.push('poll')
  return names
}

/** Settings of the llama.cpp backend. Everything but the file has a default. */
export type LlamaCppOptions = Readonly<z.input<typeof options>>

/** {@link LlamaCppOptions} with the defaults that do not depend on model or machine. */
export type CheckedLlamaCppOptions = Readonly<z.output<typeof options>>

/** How positions are stretched; see {@link LlamaCppOptions}. */
export type RopeOptions = Readonly<z.output<typeof rope>>

/** Where a model's weights go; see {@link LlamaCppOptions}. */
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
export interface LlamaCppDependencies {
  readonly clock: Clock
  readonly logger: Logger
  /**
   * Bytes of RAM that this process may still take, where something sets a lower limit than the
   * machine's free memory, such as a container.
   */
  readonly availableMemory?: () => number
  /** CPU cores to compute on; default: all cores available to the process, for this engine alone. */
  readonly cores?: CoreShare
  /**
   * The file of a library that was built for this machine, as `cllm native build` does it; used on the
   * CPU with `native: 'ffi'`. One for another CPU can end the process. Default: node-llama-cpp's.
   */
  readonly library?: string | undefined
  /** The file of the library for images (`libmtmd`) that was built for this machine. Default: there is none. */
  readonly mediaLibrary?: string | undefined
  /** A folder whose `node_modules` have libraries for GPUs, as `cllm gpu add` fetches them. Default: there is none. */
  readonly gpuFolder?: string | undefined
}
