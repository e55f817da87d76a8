import { basename } from 'node:path'
import { defined, type MediaType, type ModelInfo } from '@cllm/core'
import type { LlamaRuntime, LoadedModel, NativeDoor } from '../native/native.js'
import type { NativeModel } from '../native/native-model.js'
import type { ChatTemplate } from '../text/chat-template.js'
import type { Vocabulary } from '../text/vocabulary.js'
import { type ModelShape, rankPooling } from './model-shape.js'
import type { ContextSettings } from './open-context.js'

/** A model in memory. */
export interface OpenModel {
  readonly llama: LlamaRuntime
  readonly door: NativeDoor
  readonly loaded: LoadedModel
  readonly shape: ModelShape
  /** Bytes that the model takes, including its slots. */
  readonly memoryBytes: number
}

/** The description of a model for clients. */
export function modelInfo(
  { door, loaded, shape, memoryBytes }: OpenModel,
  { modelId, modelPath, threads, kvUnified, mmap, mlock, pooling, reasoning }: ContextSettings,
  vocabulary: Vocabulary,
  template: ChatTemplate,
  media: readonly MediaType[] = [],
): ModelInfo {
  const { native, gpuLayers } = loaded
  const { ropeTheta, rmsNormEpsilon } = shape
  const [eosTokenId] = vocabulary.endOfGeneration
  return {
    id: modelId ?? basename(modelPath).replace(/\.gguf$/i, ''),
    architecture: shape.architecture,
    parameters: native.getTotalParameters(),
    vocabularySize: vocabulary.size,
    trainingContext: native.getTrainContextSize(),
    quantization: shape.quantization,
    sizeBytes: native.getTotalSize(),
    path: modelPath,
    sampling: shape.sampling ?? {},
    ...(media.includes('image') && { images: true }),
    ...(media.includes('audio') && { audio: true }),
    details: {
      layers: shape.layers,
      hiddenSize: shape.hiddenSize,
      feedForwardSize: shape.feedForwardSize,
      attentionHeads: shape.attentionHeads,
      keyValueHeads: shape.keyValueHeads,
      headSize: shape.keyLength,
      gpuLayers,
      native: door.name,
      threads: threads.most,
      kvUnified: kvUnified === 'on',
      mmap,
      mlock,
      memoryBytes,
      chatTemplate: template.source,
      bosToken: vocabulary.bosText,
      eosToken: vocabulary.eosText,
      ...defined({ eosTokenId, reasoning, pooling, ropeTheta, rmsNormEpsilon }),
      ...(shape.pooling === rankPooling && pairDetails(native)),
    },
  }
}

/** How a reranker's two texts are joined; token ids are written in a text, separated by spaces. */
function pairDetails(native: NativeModel): Record<string, string> {
  const pair = native.pairFormat?.()
  if (pair === undefined) return {}
  return {
    pooling: 'rank',
    pairBetween: pair.between.join(' '),
    pairAfter: pair.after.join(' '),
    ...(pair.template !== undefined && { pairTemplate: pair.template }),
  }
}
