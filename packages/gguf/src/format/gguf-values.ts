import type { GgufValue } from './gguf-types.js'

/** A `uint32`, the usual type of sizes and token ids in GGUF metadata. */
export const uint32 = (value: number): GgufValue => ({ type: 'uint32', value })

/** A `float32`. */
export const float32 = (value: number): GgufValue => ({ type: 'float32', value })

/** A `bool`. */
export const bool = (value: boolean): GgufValue => ({ type: 'bool', value })

/** A UTF-8 `string`. */
export const text = (value: string): GgufValue => ({ type: 'string', value })

/** An array of `string`. */
export const texts = (values: readonly string[]): GgufValue => ({
  type: 'array',
  items: 'string',
  values,
})

/** An array of `int32`. */
export const int32s = (values: readonly number[]): GgufValue => ({
  type: 'array',
  items: 'int32',
  values,
})

/** An array of `float32`. */
export const float32s = (values: readonly number[]): GgufValue => ({
  type: 'array',
  items: 'float32',
  values,
})
