/**
 * For each format its `ggml_type`, and the average bytes per number: quantized formats store blocks of 32 numbers, such
 * as 34 bytes in q8_0.
 */
export const kvCacheFormats = {
  f16: { id: 1, bytes: 2 },
  q8_0: { id: 8, bytes: 34 / 32 },
  f32: { id: 0, bytes: 4 },
  bf16: { id: 30, bytes: 2 },
  q4_0: { id: 2, bytes: 18 / 32 },
  q4_1: { id: 3, bytes: 20 / 32 },
  iq4_nl: { id: 20, bytes: 18 / 32 },
  q5_0: { id: 6, bytes: 22 / 32 },
  q5_1: { id: 7, bytes: 24 / 32 },
} as const

/** The number format of keys and values. */
export type KvCacheType = keyof typeof kvCacheFormats

/** All {@link KvCacheType}s. node-llama-cpp's addon was tested with the first two. */
export const kvCacheTypes = Object.keys(kvCacheFormats) as [KvCacheType, ...KvCacheType[]]

/** Whether the format stores numbers in blocks, which only flash attention can read. */
export function isQuantized(type: KvCacheType): boolean {
  return type.includes('q')
}
