import { CllmError } from '@cllm/core'
import { options, type CllmConfig } from '../config/options/schema.js'

type EngineConfig = CllmConfig['engine']
type BackendOptions = Record<string, unknown>

const toBackend = options.filter(({ path }) => path.startsWith('engine.'))

/** The options of a backend that the settings of `engine` give; `isLlamaCpp`: also those of llama.cpp alone. */
export function backendOptions(engine: EngineConfig, isLlamaCpp: boolean): BackendOptions {
  const given: BackendOptions = {}
  for (const { path, backend, llamaCpp } of toBackend) {
    const target = backend ?? (isLlamaCpp ? llamaCpp : undefined)
    const value = engine[path.slice('engine.'.length) as keyof EngineConfig]
    if (target !== undefined && isSet(value)) place(given, target, value)
  }
  if (isLlamaCpp) convert(engine, given)
  return given
}

/** Adds the options of llama.cpp whose values have another form than the settings. */
function convert(engine: EngineConfig, given: BackendOptions): void {
  const shares = engine.tensor_split.map(toShare)
  const tensors = [...overrides(engine)]
  if (shares.length > 0) place(given, 'placement.tensorSplit', shares)
  if (tensors.length > 0) place(given, 'placement.overrideTensors', tensors)
  if (engine.reasoning !== 'auto') given['reasoning'] = engine.reasoning === 'on'
}

const isSet = (value: unknown): boolean =>
  value !== null && value !== 'auto' && !(Array.isArray(value) && value.length === 0)

function place(options: BackendOptions, path: string, value: unknown): void {
  const [name = '', inner] = path.split('.')
  if (inner === undefined) options[name] = value
  else options[name] = { ...(options[name] as BackendOptions | undefined), [inner]: value }
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
