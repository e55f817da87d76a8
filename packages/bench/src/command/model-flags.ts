import type { Backend, EngineClient } from '@cllm/core'
import { one, wrong, type parseFlags } from './flags.js'
import type { PolicyFactory } from './read-simulation.js'
import { integer, word } from './values.js'

/** A model and how it is loaded. */
export interface ModelSettings {
  /** A path or a name, as `cllm serve --model` takes it. */
  readonly model: string
  readonly slots: number
  /** Tokens per slot. */
  readonly contextSize: number | undefined
  readonly batchSize: number
  readonly gpu: 'auto' | 'off' | 'metal' | 'cuda' | 'vulkan'
  readonly threads: number | undefined
  readonly policy: string
  readonly policyOptions?: Readonly<Record<string, unknown>>
}

/** A model that is served over HTTP. */
export interface ServedModel {
  readonly url: URL
  readonly client: EngineClient
  /** Ends the server and its engine. */
  readonly close: () => Promise<void>
}

/** A backend whose native forward passes can be measured by themselves. */
export interface MeasuredBackend extends Backend {
  /** As `step`, but nothing is drawn: each output repeats its item's last token. */
  readonly forward?: Backend['step']
}

/** Loads models for the commands that measure them from within. */
export interface ModelHost {
  /** A backend in this process. */
  openBackend(settings: ModelSettings): Promise<MeasuredBackend>
  /** An engine in a process of its own, and HTTP before it. */
  serve(settings: ModelSettings): Promise<ServedModel>
  /** A policy for an engine in this process. */
  readonly policies: PolicyFactory
}

const text = (value: string) => value

/** The flags of {@link ModelSettings}. */
export const modelFlags = {
  model: one('SPEC', 'The model: a path or a name, as for cllm serve', text),
  slots: one('N', 'Sequences in memory (default 8)', integer(1, 256), 8),
  'ctx-size': one('N', "Tokens per slot (default: the backend's)", integer(1)),
  'batch-size': one('N', 'Tokens per step (default 512)', integer(1), 512),
  gpu: one(
    'KIND',
    'auto (default), off, metal, cuda or vulkan',
    word('auto', 'off', 'metal', 'cuda', 'vulkan'),
    'auto' as const,
  ),
  threads: one('N', 'Threads (default: the useful cores)', integer(1, 512)),
  policy: one('NAME', 'Scheduling policy (default adaptive+fcfs)', text, 'adaptive+fcfs'),
} as const

/** Reads {@link modelFlags}. */
export function readModel(flags: ReturnType<typeof parseFlags<typeof modelFlags>>): ModelSettings {
  const { model, slots, gpu, threads, policy } = flags
  if (model === undefined) throw wrong('--model is missing: the path or name of a model expected')
  const sizes = { contextSize: flags['ctx-size'], batchSize: flags['batch-size'] }
  return { model, slots, gpu, threads, policy, ...sizes }
}
