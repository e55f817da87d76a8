/** The numbers of the scalar types in a file. */
export const scalarIds = {
  uint8: 0,
  int8: 1,
  uint16: 2,
  int16: 3,
  uint32: 4,
  int32: 5,
  float32: 6,
  bool: 7,
  string: 8,
  uint64: 10,
  int64: 11,
  float64: 12,
} as const

/** The scalar types of GGUF metadata, under their names in the GGUF specification. */
export type GgufScalarType = keyof typeof scalarIds

/**
 * A scalar as a JavaScript value; `bigint` is for 64-bit integers only, which may also be a safe
 * `number`.
 */
export type GgufScalar = number | bigint | boolean | string

/**
 * One metadata value: a scalar with its type, or an array of scalars of one type (no arrays in
 * arrays).
 */
export type GgufValue =
  | { readonly type: GgufScalarType; readonly value: GgufScalar }
  | {
      readonly type: 'array'
      readonly items: GgufScalarType
      readonly values: readonly GgufScalar[]
    }

/** Metadata of a GGUF file, written in insertion order. */
export type GgufMetadata = Readonly<Record<string, GgufValue>>

/** The tensor types that the writer supports, under ggml's names. */
export type GgufTensorType = keyof typeof tensorBlocks

/**
 * One tensor: its description, and a source of its bytes that is read once, when the tensor is
 * written.
 */
export interface GgufTensor {
  readonly name: string
  readonly type: GgufTensorType
  /** Dimensions in ggml's order: the length of a row first. */
  readonly shape: readonly number[]
  /**
   * The tensor's bytes in order, in pieces of any size. A piece is written before the next one is
   * requested, so all pieces may share one buffer.
   */
  readonly data: () => Iterable<Uint8Array>
}

/** A tensor of floats, which are asked for when it is written. */
export const floatTensor = (
  name: string,
  shape: readonly number[],
  values: () => Float32Array,
): GgufTensor => ({ name, type: 'F32', shape, data: () => [floatBytes(values())] })

/** Floats as they stand in a file. */
export const floatBytes = (values: Float32Array): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength)

/** Elements and bytes of one block of each tensor type; a row is a whole number of blocks. */
export const tensorBlocks = {
  F32: { id: 0, elements: 1, bytes: 4 },
  Q8_0: { id: 8, elements: 32, bytes: 34 },
  Q4_K: { id: 12, elements: 256, bytes: 144 },
  Q6_K: { id: 14, elements: 256, bytes: 210 },
} as const

const arrayOf = (items: GgufScalarType, values: readonly GgufScalar[]): GgufValue => {
  return { type: 'array', items, values }
}

/** A `uint32`, the usual type of sizes and token ids in GGUF metadata. */
export const uint32 = (value: number): GgufValue => ({ type: 'uint32', value })

/** A `float32`. */
export const float32 = (value: number): GgufValue => ({ type: 'float32', value })

/** A `bool`. */
export const bool = (value: boolean): GgufValue => ({ type: 'bool', value })

/** A UTF-8 `string`. */
export const text = (value: string): GgufValue => ({ type: 'string', value })

/** An array of `string`. */
export const texts = (values: readonly string[]): GgufValue => arrayOf('string', values)

/** An array of `int32`. */
export const int32s = (values: readonly number[]): GgufValue => arrayOf('int32', values)

/** An array of `float32`. */
export const float32s = (values: readonly number[]): GgufValue => arrayOf('float32', values)

/** The kind of a vocabulary entry, numbered as in `tokenizer.ggml.token_type`. */
export const TokenType = {
  Normal: 1,
  Unknown: 2,
  Control: 3,
  UserDefined: 4,
  Unused: 5,
  Byte: 6,
} as const

/** One of the numbers of {@link TokenType}. */
export type TokenType = (typeof TokenType)[keyof typeof TokenType]

/** `general.file_type` by the type of most matrices. */
export const fileTypes = { F32: 0, Q8_0: 7, Q4_K_M: 15 } as const
