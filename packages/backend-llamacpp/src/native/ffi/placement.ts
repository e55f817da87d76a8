import { CllmError } from '@cllm/core'
import type { PlacementOptions } from '../../llamacpp-options.js'
import { addressOf, type NativeFunctions } from './bind-functions.js'
import type { Pointer, Value } from './structs.js'

/** `llama_split_mode`. */
const splitModes = { none: 0, layer: 1, row: 2 } as const

/** Fields of `llama_model_params`, and the memory that they point to. */
export interface Placement {
  readonly params: Partial<Value<'llama_model_params'>>
  /** To hold on to until the model is loaded. */
  readonly memory: readonly NodeJS.TypedArray[]
}

/**
 * Where a model's weights go, for llama.cpp.
 * @throws CllmError `invalid_configuration` naming the devices there are
 */
export function placementOf(
  functions: NativeFunctions,
  { devices, splitMode, mainGpu, tensorSplit, overrideTensors = [] }: PlacementOptions,
): Placement {
  const memory: NodeJS.TypedArray[] = []
  const keep = (array: NodeJS.TypedArray): Pointer => {
    memory.push(array)
    return addressOf(array)
  }
  const pointers = (list: readonly Pointer[]) => {
    const array = new BigUint64Array(new ArrayBuffer(8 * (list.length + 1)))
    for (const [index, pointer] of list.entries()) array[index] = pointer ?? 0n
    return keep(array)
  }
  const text = (value: string) => {
    const bytes = Buffer.from(`${value}\0`)
    const array = new Uint8Array(new ArrayBuffer(bytes.length))
    array.set(bytes)
    return keep(array)
  }
  const known = namedDevices(functions)
  const find = (name: string, field: string): Pointer => {
    const device = known.get(name)
    if (device !== undefined) return device
    const names = [...known.keys()]
    const message = `${field}: expected a device of ${names.join(', ')}, got "${name}"`
    throw new CllmError('invalid_configuration', message, {
      details: { field, expected: names, received: name },
    })
  }
  const params: Partial<Value<'llama_model_params'>> = {}
  if (devices !== undefined) {
    params.devices = pointers(devices.map((name) => find(name, 'devices')))
  }
  if (splitMode !== undefined) params.split_mode = splitModes[splitMode]
  if (mainGpu !== undefined) params.main_gpu = mainGpu
  if (tensorSplit !== undefined) {
    const shares = new Float32Array(new ArrayBuffer(4 * functions.llama_max_devices()))
    shares.set(tensorSplit)
    params.tensor_split = keep(shares)
  }
  if (overrideTensors.length > 0) {
    // Pairs of a text and a buffer type; a pair of nulls is the end.
    const pairs = overrideTensors.flatMap(({ pattern, device }) => [
      text(pattern),
      functions.ggml_backend_dev_buffer_type(find(device, 'overrideTensors')),
    ])
    params.tensor_buft_overrides = pointers([...pairs, null])
  }
  return { params, memory }
}

/** The devices that llama.cpp can compute on. */
function namedDevices(functions: NativeFunctions): Map<string, Pointer> {
  const count = functions.ggml_backend_dev_count()
  const devices = Array.from({ length: count }, (_, at) => functions.ggml_backend_dev_get(at))
  return new Map(devices.map((one) => [functions.ggml_backend_dev_name(one) ?? '', one]))
}
