/** How the vectors of a text's tokens become one, in llama.cpp's numbers (`LLAMA_POOLING_TYPE_…`). */
const numbers = { none: 0, mean: 1, cls: 2, last: 3 } as const

/** A way to make one vector of a text's tokens. */
export type PoolingType = keyof typeof numbers

/** All that can be chosen: a model that compares texts says so itself. */
export const poolingTypes = Object.keys(numbers) as [PoolingType, ...PoolingType[]]

/** llama.cpp's number. */
export const poolingNumber = (type: PoolingType): number => numbers[type]
