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

/** Logits that a forward pass gives out at least, if it has as many tokens. */
const leastOutputs = 64

/** Threads that draw beside the main one, at most: each keeps 30 bytes per entry of the vocabulary. */
const mostDrawThreads = 7

const lookUpThreads = 2

/** What decides on the context. */
export type ContextSettings = Omit<CheckedLlamaCppOptions, 'threads'> & {
  readonly contextSize: number
  readonly threads: ThreadRange
  /** What other processes compute, counted since before the model was loaded. */
  readonly load: MachineLoad
  /** Logits that one pass can give out. */
  readonly outputs: number
}

/** A context, and what draws from it. */
export interface OpenContext {
  readonly context: NativeContext
  /** The same where it gives its states out, and takes vectors in place of tokens. */
  readonly stateful?: LogitsContext | undefined
  /** The same where its forward passes can be ended; otherwise no step can be left. */
  readonly abortable?: LogitsContext | undefined
  /** What chooses the threads of each pass; otherwise their number stays. */
  readonly threads?: AdaptiveThreads | undefined
  samplers(vocabulary: Vocabulary, tokenizer: Tokenizer, logger: Logger): SamplerFactory
}

/**
 * Makes the context of the slots.
 * @param contextSize - cells of all slots together
 * @throws CllmError `insufficient_memory`, or `invalid_configuration` where the KV type cannot be had
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
    // of the context for embeddings alone
    pooling: undefined,
  }
  const context = await loaded.createContext(options)
  if (context !== undefined && givesLogits(context)) {
    // Beside a GPU most cores are idle, and its passes are short.
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

/** Logits for each slot and for some drafts; each takes 4 bytes per entry of the vocabulary. */
export function outputsPerPass(settings: Pick<ContextSettings, 'slots' | 'batchSize'>): number {
  return Math.min(settings.batchSize, Math.max(leastOutputs, 2 * settings.slots))
}

/** Where a GPU has all layers, the CPU looks up tokens: waking more threads takes longer than that. */
function threadsOf({ onGpu }: LoadedModel, { threads }: ContextSettings): ThreadRange {
  if (onGpu !== 'all') return threads
  const few = Math.min(threads.start, lookUpThreads)
  return { start: few, startAlone: few, most: few }
}
