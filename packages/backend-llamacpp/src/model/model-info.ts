import { basename } from 'node:path'
import type { ModelInfo } from '@cllm/core'
import type { LoadedModel } from '../native/native.js'
import type { NativeModel } from '../native/native-model.js'
import type { ChatTemplate } from '../text/chat-template.js'
import type { Vocabulary } from '../text/vocabulary.js'
import type { ModelShape } from './model-shape.js'
import type { ContextSettings } from './open-context.js'

/** What computes: the library that was built on this machine, or node-llama-cpp's, or its addon. */
function nativeOf(loaded: LoadedModel): 'built' | 'prebuilt' | 'addon' {
  if (loaded.path === 'addon') return 'addon'
  return loaded.library === undefined ? 'prebuilt' : 'built'
}

/** What clients see of a model. */
export function modelInfo(
  loaded: LoadedModel,
  shape: ModelShape,
  {
    modelId,
    modelPath,
    threads,
    kvUnified,
    mmap,
    mlock,
    memoryBytes,
    pooling,
    reasoning,
  }: ContextSettings & { readonly memoryBytes: number },
  vocabulary: Vocabulary,
  template: ChatTemplate,
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
    details: {
      layers: shape.layers,
      hiddenSize: shape.hiddenSize,
      feedForwardSize: shape.feedForwardSize,
      attentionHeads: shape.attentionHeads,
      keyValueHeads: shape.keyValueHeads,
      headSize: shape.keyLength,
      gpuLayers,
      native: nativeOf(loaded),
      threads: threads.most,
      kvUnified: kvUnified === 'on',
      mmap,
      mlock,
      memoryBytes,
      chatTemplate: template.source,
      bosToken: vocabulary.bosText,
      eosToken: vocabulary.eosText,
      ...(eosTokenId !== undefined && { eosTokenId }),
      ...(reasoning !== undefined && { reasoning }),
      ...(pooling !== undefined && { pooling }),
      ...(shape.comparesTexts && pairDetails(native)),
      ...(ropeTheta !== undefined && { ropeTheta }),
      ...(rmsNormEpsilon !== undefined && { rmsNormEpsilon }),
    },
  }
}

/** How texts are put together that are compared; token ids as a text with blanks. */
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
