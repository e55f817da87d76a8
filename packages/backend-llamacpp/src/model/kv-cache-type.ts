/** Bytes per number of each format: quantized ones keep 32 numbers in a block, q8_0 in 34 bytes. */
export const kvCacheBytes = {
  f16: 2,
  q8_0: 34 / 32,
  f32: 4,
  bf16: 2,
  q4_0: 18 / 32,
  q4_1: 20 / 32,
  iq4_nl: 18 / 32,
  q5_0: 22 / 32,
  q5_1: 24 / 32,
} as const

/** The number format of keys and values. */
export type KvCacheType = keyof typeof kvCacheBytes

/** Each {@link KvCacheType}. node-llama-cpp's addon was tested with the first two. */
export const kvCacheTypes = Object.keys(kvCacheBytes) as [KvCacheType, ...KvCacheType[]]

/** Bytes that a number takes on average. */
export function bytesPerElement(type: KvCacheType): number {
  return kvCacheBytes[type]
}

/** Whether numbers come in blocks, which only flash attention reads. */
export function isQuantized(type: KvCacheType): boolean {
  return type.includes('q')
}
