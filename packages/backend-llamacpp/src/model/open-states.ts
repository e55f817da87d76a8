import type { SlotStates } from '@cllm/core'
import type { CheckedLlamaCppOptions } from '../llamacpp-options.js'
import type { LoadedModel } from '../native/native.js'
import { llamaVersion } from '../native/versions.js'
import { LlamaCppStates } from '../slots/llamacpp-states.js'
import type { SlotCells } from '../slots/slot-cells.js'
import type { ModelShape } from './model-shape.js'
import type { OpenContext } from './open-context.js'
import { stateKey } from './state-key.js'

/** What saves and restores the slots of a model, or undefined on the addon's path. */
export function openStates(
  { stateful: context }: OpenContext,
  cells: SlotCells,
  shape: ModelShape,
  settings: Pick<
    CheckedLlamaCppOptions,
    'modelPath' | 'kvCacheType' | 'flashAttention' | 'slots' | 'rope' | 'kvUnified'
  >,
  { gpuLayers }: LoadedModel,
): SlotStates | undefined {
  if (context === undefined) return undefined
  const { modelPath, kvCacheType, flashAttention, rope = {} } = settings
  // llama.cpp notes how many slots have cells of their own, and refuses a state of another count.
  const streams = settings.kvUnified === 'on' ? 1 : settings.slots
  const more = { llamaVersion, kvCacheType, flashAttention, rope, streams, gpuLayers }
  return new LlamaCppStates({
    context,
    cells,
    cutsAnywhere: shape.slidingWindow === undefined && !shape.isRecurrent,
    checkpointNeedsPrefix: shape.cacheElementsPerToken > 0,
    key: () => stateKey(modelPath, more),
  })
}
