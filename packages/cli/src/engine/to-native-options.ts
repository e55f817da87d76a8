import { CllmError } from '@cllm/core'
import type { CllmConfig } from '../config/options/schema.js'

type EngineConfig = CllmConfig['engine']

/** The settings of llama.cpp's C API; those that are not set are left out. */
export function toNativeOptions(engine: EngineConfig) {
  const rope = given({
    scaling: engine.rope_scaling,
    freqBase: engine.rope_freq_base,
    freqScale: engine.rope_freq_scale,
    yarnOriginalContext: engine.yarn_orig_ctx,
  })
  const overrideTensors = [...overrides(engine)]
  const placement = given({
    devices: filled(engine.devices),
    splitMode: engine.split_mode,
    mainGpu: engine.main_gpu,
    tensorSplit: filled(engine.tensor_split.map(toShare)),
    overrideTensors: filled(overrideTensors),
  })
  return given({
    native: engine.native,
    poll: engine.poll,
    kvUnified: engine.kv_unified,
    kvTokens: engine.kv_tokens === 'auto' ? null : engine.kv_tokens,
    ubatchSize: engine.ubatch_size,
    pooling: engine.pooling,
    rope: Object.keys(rope).length > 0 ? rope : null,
    placement: Object.keys(placement).length > 0 ? placement : null,
  })
}

function* overrides({ override_tensor: given, n_cpu_moe: layers }: EngineConfig) {
  for (const text of given) yield toOverride(text)
  for (let layer = 0; layer < layers; layer++) {
    // llama.cpp's own pattern of the weights of experts
    const pattern = `blk\\.${layer}\\.ffn_(up|down|gate|gate_up)_(ch|)exps`
    yield { pattern, device: 'CPU' }
  }
}

function toOverride(text: string): { readonly pattern: string; readonly device: string } {
  const [, pattern, device] = /^(.+)=([^=]+)$/.exec(text) ?? []
  if (pattern !== undefined && device !== undefined) return { pattern, device }
  throw wrong('engine.override_tensor', 'PATTERN=DEVICE', text)
}

function toShare(text: string): number {
  const share = Number(text)
  if (text.trim() !== '' && Number.isFinite(share) && share >= 0) return share
  throw wrong('engine.tensor_split', 'numbers from 0 up', text)
}

function wrong(field: string, expected: string, received: string): CllmError {
  const message = `${field}: expected ${expected}, got "${received}"`
  return new CllmError('invalid_configuration', message, { details: { field, expected, received } })
}

function filled<T>(list: readonly T[]): readonly T[] | null {
  return list.length > 0 ? list : null
}

/** Without what is null. */
function given<T extends object>(values: T): { [N in keyof T]?: NonNullable<T[N]> } {
  const entries = Object.entries(values).filter(([, value]) => value !== null)
  return Object.fromEntries(entries) as { [N in keyof T]?: NonNullable<T[N]> }
}
