import { CllmError, type Clock, type Logger, type Tokenizer } from '@cllm/core'
import type { CheckedLlamaCppOptions } from '../llamacpp-options.js'
import { isQuantized } from './kv-cache-type.js'
import { givesLogits, type LogitsContext, type NativeContext } from '../native/native-context.js'
import type { LoadedModel } from '../native/native.js'
import { ChainSamplers } from '../sampling/chain/chain-sampler.js'
import type { SamplerFactory } from '../sampling/token-sampler.js'
import type { Vocabulary } from '../text/vocabulary.js'
import { AdaptiveThreads } from '../threads/adaptive-threads.js'
import type { MachineLoad, ThreadRange } from '../threads/cores.js'

/** The fewest outputs (rows of logits) that a forward pass has room for, unless the batch has fewer tokens. */
const leastOutputs = 64

/** The most threads that draw beside the main one: each keeps 30 bytes per entry of the vocabulary. */
const mostDrawThreads = 7

const lookUpThreads = 2

/** The settings that determine the context. */
export type ContextSettings = Omit<CheckedLlamaCppOptions, 'threads'> & {
  readonly contextSize: number
  readonly threads: ThreadRange
  /** The load by other processes, measured since before the model was loaded. */
  readonly load: MachineLoad
  /** Outputs (rows of logits) that one pass has room for. */
  readonly outputs: number
}

/** A context, and the samplers that draw from it. */
export interface OpenContext {
  readonly context: NativeContext
  /** The same context, if it can save states and take vectors in place of tokens. */
  readonly stateful?: LogitsContext | undefined
  /** The same context, if its forward passes can be interrupted. */
  readonly abortable?: LogitsContext | undefined
  /** Chooses the number of threads for each pass; undefined: the number is fixed. */
  readonly threads?: AdaptiveThreads | undefined
  samplers(vocabulary: Vocabulary, tokenizer: Tokenizer, logger: Logger): SamplerFactory
}

/**
 * Makes the context that holds the slots.
 * @param contextSize - the KV cells of all slots together
 * @throws CllmError `insufficient_memory`, or `invalid_configuration` if llama.cpp refuses the KV type
 */
export async function openContext(
  loaded: LoadedModel,
  settings: ContextSettings,
  contextSize: number,
  clock: Clock,
): Promise<OpenContext> {
  const { slots: sequences, kvUnified, kvCacheType } = settings
  const threads = threadsOf(loaded, settings)
  const options = {
    ...settings,
    contextSize,
    sequences,
    threads: threads.most,
    startThreads: threads.start,
    kvUnified: kvUnified === 'on',
    // only for the context of embeddings
    pooling: undefined,
  }
  const context = await loaded.createContext(options)
  if (context !== undefined && givesLogits(context)) {
    // With a GPU most cores are idle, and as passes are short, drawing takes a larger share of a step.
    const drawing =
      loaded.gpuLayers === 0 ? 0 : Math.min(mostDrawThreads, Math.floor(settings.threads.most / 2))
    return {
      context,
      stateful: context,
      samplers: (vocabulary, tokenizer, logger) =>
        new ChainSamplers(context, vocabulary, tokenizer, drawing, logger),
      ...(loaded.onGpu === 'none' && { abortable: context }),
      ...(threads.start !== threads.most && {
        threads: new AdaptiveThreads(context, { ...threads, clock, load: settings.load }),
      }),
    }
  }
  if (context !== undefined) {
    return { context, samplers: (vocabulary) => context.createSamplers!(vocabulary) }
  }
  if (isQuantized(kvCacheType)) {
    throw new CllmError(
      'invalid_configuration',
      `llama.cpp refuses kvCacheType '${kvCacheType}' here: it needs flash attention and heads of ` +
        `a multiple of 32 numbers; use 'f16'`,
      { details: { field: 'kvCacheType', ...detailsOf(settings, contextSize) } },
    )
  }
  const message =
    `llama.cpp could not allocate ${sequences} slots of ${settings.contextSize} tokens: lower ` +
    `slots or contextSize`
  throw new CllmError('insufficient_memory', message, { details: detailsOf(settings, contextSize) })
}

function detailsOf(settings: ContextSettings, contextSize: number) {
  const { slots: sequences, batchSize, flashAttention, kvCacheType } = settings
  return { contextSize, sequences, batchSize, flashAttention, kvCacheType }
}

/** The outputs of a pass: for each slot and some drafts. Each takes 4 bytes per entry of the vocabulary. */
export function outputsPerPass(settings: Pick<ContextSettings, 'slots' | 'batchSize'>): number {
  return Math.min(settings.batchSize, Math.max(leastOutputs, 2 * settings.slots))
}

/** If a GPU has all layers, the CPU only looks up tokens, which takes less time than waking more threads. */
function threadsOf({ onGpu }: LoadedModel, { threads }: ContextSettings): ThreadRange {
  if (onGpu !== 'all') return threads
  const few = Math.min(threads.start, lookUpThreads)
  return { start: few, startAlone: few, most: few }
}
