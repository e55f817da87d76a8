import type { ModelSettings } from '@cllm/bench'
import { one, wrong, type Values } from '../../flags/flags.js'
import { integer, word } from '../../flags/values.js'

/** The flags of {@link ModelSettings}. */
export const modelFlags = {
  model: one('SPEC', 'The model: a path or a name, as for cllm serve'),
  slots: one('N', 'Slots: sequences in memory', integer(1, 256), '8'),
  'ctx-size': one('N', "Tokens per slot (default: the backend's)", integer(1)),
  'batch-size': one('N', 'Tokens per step', integer(1), '512'),
  gpu: one(
    'KIND',
    'auto (default), off, metal, cuda or vulkan',
    word('auto', 'off', 'metal', 'cuda', 'vulkan'),
    'auto',
  ),
  threads: one('N', 'Threads (default: all useful cores but one)', integer(1, 512)),
  policy: one('NAME', 'Scheduling policy', String, 'adaptive+fcfs'),
} as const

/** Reads {@link modelFlags}. */
export function readModel(flags: Values<typeof modelFlags>): ModelSettings {
  const { model, slots, gpu, threads, policy } = flags
  if (model === undefined) throw wrong('--model is missing: expected the path or name of a model')
  const sizes = { contextSize: flags['ctx-size'], batchSize: flags['batch-size'] }
  return { model, slots, gpu, threads, policy, ...sizes }
}
