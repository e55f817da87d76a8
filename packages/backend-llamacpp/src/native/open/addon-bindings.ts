import { CllmError } from '@cllm/core'
import type { AddonContext, NativeSampler } from '../addon/addon-types.js'
import type { JinjaTemplate } from '../native.js'
import type { NativeModel } from '../native-model.js'
import { nodeLlamaCppVersion } from '../versions.js'

/** The addon's context, as it is. */
export interface BoundContext extends Omit<AddonContext, 'decodeBatch'> {
  init(): Promise<boolean>
  initBatch(tokens: number): void
  /** @param outputs - indexes of tokens */
  addToBatch(sequence: number, position: number, tokens: Uint32Array, outputs: Uint32Array): void
  decodeBatch(): Promise<void>
}

/** The exports of node-llama-cpp's addon that are used. */
export interface Bindings {
  readonly AddonContext: new (
    model: NativeModel,
    options: Readonly<Record<string, unknown>>,
  ) => BoundContext
  readonly AddonSampler: new (model: NativeModel) => NativeSampler
  readonly AddonJinjaRenderer: new (source: string) => JinjaTemplate
  getGgmlType(name: string): number | undefined
}

const contextMethods = [
  'init',
  'initBatch',
  'addToBatch',
  'decodeBatch',
  'sampleToken',
  'disposeSequence',
  'removeTokenCellsFromSequence',
  'copySequenceStateFromOtherSequence',
  'getSequenceKvCacheMinPosition',
  'getSequenceKvCacheMaxPosition',
  'getEmbedding',
  'getThreads',
  'dispose',
]

const modelMethods = [
  'tokenize',
  'detokenize',
  'getTokenString',
  'getTokenAttributes',
  'isEogToken',
  'getVocabularyType',
  'shouldPrependBosToken',
  'tokenBos',
  'tokenEos',
  'prefixToken',
  'suffixToken',
  'middleToken',
  'getTrainContextSize',
  'getTotalParameters',
  'getTotalSize',
]

/** @throws CllmError `internal` when the addon lacks an export that is used here */
export function checkBindings(value: unknown): Bindings {
  const bindings = value as Partial<Bindings> | undefined
  checkMethods('AddonContext', bindings?.AddonContext?.prototype, contextMethods)
  checkMethods('AddonSampler', bindings?.AddonSampler?.prototype, ['applyConfig', 'dispose'])
  checkMethods('bindings', bindings, ['getGgmlType', 'AddonJinjaRenderer'])
  return bindings as Bindings
}

/** @throws CllmError `internal` when the model lacks a method that is used here */
export function checkModel(value: unknown): NativeModel {
  checkMethods('AddonModel', value, modelMethods)
  return value as NativeModel
}

function checkMethods(owner: string, value: unknown, names: readonly string[]): void {
  const methods = value as Readonly<Record<string, unknown>> | undefined
  for (const name of names) {
    if (typeof methods?.[name] !== 'function') throw changed(`${owner}.${name}`)
  }
}

/** The error where the installed node-llama-cpp lacks something. */
export function changed(what: string): CllmError {
  return new CllmError(
    'internal',
    `@cllm/backend-llamacpp uses internals of node-llama-cpp ${nodeLlamaCppVersion}; ` +
      `the installed version has no ${what}: install node-llama-cpp@${nodeLlamaCppVersion}`,
    { details: { expected: nodeLlamaCppVersion, missing: what } },
  )
}
