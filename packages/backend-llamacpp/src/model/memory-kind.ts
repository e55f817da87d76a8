import type { NativeModel } from '../native/native-model.js'
import type { ModelShape } from './model-shape.js'

/** What decides on where a slot can be cut. */
export type MemoryKind = Pick<ModelShape, 'slidingWindow' | 'isRecurrent'>

/**
 * What the file says and what llama.cpp does, whichever allows less: the windows of some (Gemma 2,
 * Llama 4) are in its code and not in the file.
 */
export function memoryKind(
  native: Pick<NativeModel, 'slidingWindow' | 'isRecurrent'>,
  shape: MemoryKind,
): MemoryKind {
  const window = Math.max(shape.slidingWindow ?? 0, native.slidingWindow?.() ?? 0)
  return {
    slidingWindow: window > 0 ? window : undefined,
    isRecurrent: shape.isRecurrent || native.isRecurrent?.() === true,
  }
}
