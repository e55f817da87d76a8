import { join } from 'node:path'
import {
  type Backend,
  defaultSampling,
  type Logger,
  type SamplingParams,
  systemClock,
} from '@cllm/core'
import { writeSyntheticModel } from '@cllm/gguf'
import type { Test } from 'tap'
import { createLlamaCppBackend } from '../src/create-llamacpp-backend.js'
import type { LlamaCppOptions } from '../src/llamacpp-options.js'
import type { AddonModel } from '../src/native/addon/addon-bindings.js'
import type {
  LoadedModel,
  LoadModelOptions,
  LogitsModel,
  NativePath,
} from '../src/native/native.js'
import type { NativeContext } from '../src/native/native-context.js'
import { openLlama } from '../src/native/open-llama.js'
import { writeTinyModel } from './tiny-models.js'

/** A line that was logged. */
export interface LogLine {
  readonly level: string
  readonly message: string
}

/** Keeps what is logged, without llama.cpp's own lines. */
export function recordingLogger(lines: LogLine[] = []): Logger & { readonly lines: LogLine[] } {
  const method =
    (level: string) => (fields: Readonly<Record<string, unknown>>, message: string) => {
      if (fields['component'] !== 'llama.cpp') lines.push({ level, message })
    }
  return {
    lines,
    debug: method('debug'),
    info: method('info'),
    warn: method('warn'),
    error: method('error'),
  }
}

/** Writes a model of a few kilobytes and returns its path. */
export async function tinyModel(
  t: Test,
  kind: 'tiny' | 'llama' | 'gemma2' | 'gemma3' | 'mamba' | 'lfm2' | 'qwen3' | 'bert' = 'tiny',
): Promise<string> {
  const out = join(t.testdir(), `${kind}.gguf`)
  if (kind === 'tiny') await writeSyntheticModel({ like: 'tiny', out, seed: 1 })
  else await writeTinyModel(out, kind)
  return out
}

/** Loads a model through one of the ways to llama.cpp. */
export async function loadModel(
  options: LoadModelOptions & { readonly path: 'addon' },
): Promise<AddonModel>
export async function loadModel(options: LoadModelOptions): Promise<LogitsModel>
export async function loadModel({
  path = 'ffi',
  ...options
}: LoadModelOptions & { readonly path?: NativePath }): Promise<LoadedModel> {
  const llama = await openLlama('off', recordingLogger())
  return await (await llama.openDoor(path)).loadModel(options)
}

/** Loads such a model; it is disposed of with the test. */
export async function openTiny(
  t: Test,
  options: Partial<LlamaCppOptions> & { readonly kind?: Parameters<typeof tinyModel>[1] } = {},
  logger: Logger = recordingLogger(),
): ReturnType<typeof createLlamaCppBackend> {
  const { kind, ...settings } = options
  const modelPath = options.modelPath ?? (await tinyModel(t, kind))
  const backend = await createLlamaCppBackend(
    { slots: 4, contextSize: 256, batchSize: 64, threads: 1, gpu: 'off', ...settings, modelPath },
    { clock: systemClock, logger },
  )
  t.teardown(() => backend.dispose())
  return backend
}

/** Sampling parameters with the table's defaults. */
export function sampling(params: Partial<SamplingParams> = {}): SamplingParams {
  return { ...defaultSampling, seed: 1, ...params }
}

/** What a request is in these tests. */
export interface Generation {
  readonly slot: number
  readonly tokens: readonly number[]
  /** How many of them are the prompt; default: all. */
  readonly promptTokens?: number
  readonly params?: Partial<SamplingParams>
  /** Tokens to draw. */
  readonly count: number
  /** Tokens of the prompt that are in the slot already. */
  readonly computed?: number
}

/** Runs requests side by side, one token each a step, and returns what each drew. */
export async function generate(
  backend: Backend,
  requests: readonly Generation[],
): Promise<number[][]> {
  const sequences = requests.map((request) => ({
    ...request,
    computed: request.computed ?? 0,
    tokens: [...request.tokens],
    sampler: backend.createSampler(
      sampling(request.params),
      request.tokens,
      request.promptTokens ?? request.tokens.length,
    ),
    end: request.tokens.length + request.count,
  }))
  let open = sequences
  while (open.length > 0) {
    const batch = open.map(({ slot, tokens, computed, sampler }) => ({
      slot,
      position: computed,
      tokens: tokens.slice(computed),
      outputs: [tokens.length - 1],
      sampler,
    }))
    const { outputs } = await backend.step(batch)
    for (const [index, sequence] of open.entries()) {
      sequence.computed = sequence.tokens.length
      sequence.tokens.push(outputs[index]![0]!.token)
    }
    open = open.filter(({ tokens, end }) => tokens.length < end)
  }
  for (const { sampler } of sequences) sampler.dispose()
  return sequences.map(({ tokens }, index) => tokens.slice(requests[index]!.tokens.length))
}

/** Cells of sequence 0, which has tokens up to `last`, are taken out and copied. */
export async function checkCells(t: Test, context: NativeContext, last: number): Promise<void> {
  t.equal(context.getSequenceKvCacheMaxPosition(0), last)
  t.equal(context.removeTokenCellsFromSequence(0, 2, -1), true)
  t.equal(context.getSequenceKvCacheMaxPosition(0), 1)
  t.equal(context.getSequenceKvCacheMinPosition(0), 0)
  await context.copySequenceStateFromOtherSequence(1, 0)
  t.equal(context.getSequenceKvCacheMaxPosition(1), 1)
  context.disposeSequence(1)
  t.equal(context.getSequenceKvCacheMaxPosition(1), -1)
}
