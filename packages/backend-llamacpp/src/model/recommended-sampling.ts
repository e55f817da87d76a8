import type { SamplingParams } from '@cllm/core'

type Range = readonly [name: keyof SamplingParams, min: number, max: number]

/** llama.cpp's names for what a GGUF can recommend, and what is taken: out of range is left out. */
const ranges: Readonly<Record<string, Range>> = {
  temp: ['temperature', 0, 2],
  top_k: ['topK', 0, 1e6],
  top_p: ['topP', 0, 1],
  min_p: ['minP', 0, 1],
  penalty_repeat: ['repetitionPenalty', 0.01, 10],
  penalty_last_n: ['penaltyLastN', 0, 2 ** 31 - 1],
}

/**
 * The sampling that a GGUF recommends under `general.sampling`, as llama.cpp reads it. Left out are
 * XTC and mirostat, which not every backend draws with.
 */
export function samplingOf(fields: Readonly<Record<string, unknown>>): Partial<SamplingParams> {
  const known = Object.entries(ranges).flatMap(([key, [name, min, max]]) => {
    const value = fields[key] === undefined ? NaN : Number(fields[key])
    if (!(value >= min && value <= max)) return []
    // Floats of 32 bits: 0.6 is written as 0.60000002384.
    return [[name, Number(value.toPrecision(6))] as const]
  })
  return Object.fromEntries(known)
}
