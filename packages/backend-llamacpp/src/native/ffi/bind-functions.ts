import { promisify } from 'node:util'
import { entryOf, messageOf } from '@cllm/core'
import koffi from 'koffi'
import {
  type Bound,
  deviceFunctions,
  ggmlFunctions,
  llamaFunctions,
  mediaFunctions,
  type NativeFunction,
  registryFunctions,
} from './functions.js'
import { type CType, type Pointer, type StructName, structs, type Value } from './structs.js'
import { sharedObjects } from '../binaries.js'
import { llamaVersion } from '../native.js'

type Signatures = Readonly<Record<string, readonly [CType, ...CType[]]>>
type KoffiType = ReturnType<typeof koffi.type>

const plain: Readonly<Record<string, string>> = { pointer: 'void *', string: 'const char *' }

/** Koffi's types of the structs: anonymous, as names of types are global to the process. */
const structTypes = new Map<string, KoffiType>()

/** The files of the libraries with the functions. One file may contain them all. */
interface FfiLibraries {
  readonly llama: string
  readonly ggml: string
  readonly registry: string
}

/** llama.cpp's C functions and some of ggml's. */
export type NativeFunctions = Bound<
  typeof llamaFunctions & typeof ggmlFunctions & typeof registryFunctions & typeof deviceFunctions
> & {
  /** The address of `ggml_is_empty`, which serves as a callback. */
  readonly emptinessOfTensors: Pointer
}

/**
 * Binds every function.
 * @throws Error of koffi that names the library or function that is missing
 */
function bindFunctions({ llama, ggml, registry }: FfiLibraries): NativeFunctions {
  const functions = {
    ...bindLibrary(llama, llamaFunctions),
    ...bindLibrary(ggml, ggmlFunctions),
    ...bindLibrary(registry, registryFunctions),
  }
  const emptinessOfTensors: Pointer = load(ggml).symbol('ggml_is_empty')
  return { ...functions, ...bindDevice(functions), emptinessOfTensors }
}

/** The functions of the library for images and sounds, and those of the llama.cpp that it is linked with. */
export type MediaFunctions = Bound<typeof mediaFunctions & typeof llamaFunctions>

/**
 * Binds the functions of a library for images and sounds.
 * @throws Error of koffi that names the library or function that is missing
 */
export function bindMediaFunctions(file: string): MediaFunctions {
  return { ...bindLibrary(file, llamaFunctions), ...bindLibrary(file, mediaFunctions) }
}

/** Shows native memory as an `ArrayBuffer`, which must not be used after llama.cpp has freed the memory. */
export function viewMemory(pointer: Pointer, bytes: number): ArrayBuffer {
  return koffi.view(pointer, bytes)
}

/** Encodes a struct in C's layout, to pass it by pointer. */
export function encodeStruct<N extends StructName>(name: N, value: Value<N>): Uint8Array {
  const bytes = new Uint8Array(new ArrayBuffer(koffi.sizeof(typeOf(name))))
  koffi.encode(bytes, typeOf(name), value)
  return bytes
}

/**
 * The address of an array's numbers. Only for arrays with their own `ArrayBuffer`: V8 may move the numbers of other
 * short arrays.
 */
export function addressOf(array: NodeJS.TypedArray): Pointer {
  return koffi.address(array)
}

type Asynchronous<A extends readonly unknown[], R> = Pick<NativeFunction<R, A>, 'async'>

/** Makes a native function run on libuv's thread pool. */
export const onPool = <A extends readonly unknown[], R>(run: Asynchronous<A, R>) =>
  promisify(run.async) as unknown as (...args: A) => Promise<R>

/** Runs a native function on libuv's thread pool. */
export const runAsync = <A extends readonly unknown[], R>(
  run: Asynchronous<A, R>,
  ...args: A
): Promise<R> => onPool(run)(...args)

function bindLibrary<T extends Signatures>(path: string, signatures: T): Bound<T> {
  const library = load(path)
  return bindAll(signatures, (name, result, args) => library.func(name, result, args))
}

/** Binds each function of a table by its name and types. */
function bindAll<T extends Signatures>(
  signatures: T,
  bind: (name: string, result: KoffiType, args: KoffiType[]) => unknown,
): Bound<T> {
  const bound = Object.entries(signatures).map(([name, [result, ...args]]) => {
    return [name, bind(name, typeOf(result), args.map(typeOf))] as const
  })
  return Object.fromEntries(bound) as unknown as Bound<T>
}

function load(path: string): ReturnType<typeof koffi.load> {
  try {
    return koffi.load(path)
  } catch (cause) {
    throw new Error(`${path}: ${messageOf(cause)}`, { cause })
  }
}

/** Binds the CPU's functions through its registry, as the library that contains them depends on the machine. */
function bindDevice(functions: Bound<typeof ggmlFunctions & typeof registryFunctions>) {
  const cpu = 0
  const device = functions.ggml_backend_dev_by_type(cpu)
  const registry = functions.ggml_backend_dev_backend_reg(device)
  return bindAll(deviceFunctions, (name, result, args) => {
    const address = functions.ggml_backend_reg_get_proc_address(registry, name)
    if (address === null) throw new Error(`the CPU device has no function ${name}`)
    return koffi.decode(address, koffi.proto(result, args))
  })
}

function typeOf(type: CType): KoffiType {
  if (type === 'bool[512]') return koffi.array('bool', 512)
  if (!(type in structs)) return koffi.type(plain[type] ?? type)
  return entryOf(structTypes, type, () => {
    const fields = Object.entries<CType>(structs[type as StructName])
    return koffi.struct(Object.fromEntries(fields.map(([name, of]) => [name, typeOf(of)])))
  })
}

/** The names of the libraries' files; builds for GPUs have the GPU in it: `libllama.cuda.v0.5.0.so`. */
const patterns = {
  llama: /[\\/](?:lib)?llama(?:\.[a-z]+)?(?:\.v[\d.]+)?\.(?:so|dylib|dll)$/,
  ggml: /[\\/](?:lib)?ggml-base\.(?:so|dylib|dll)$/,
  registry: /[\\/](?:lib)?ggml(?:\.[a-z]+)?(?:\.v[\d.]+)?\.(?:so|dylib|dll)$/,
}

/**
 * Binds the C functions of llama.cpp in the libraries that this process has loaded, and checks that their structs have
 * the layout of {@link structs}.
 * @throws Error that says what is missing or different
 */
export function openFfi(libraries: FfiLibraries = loadedLibraries()): NativeFunctions {
  const functions = bindFunctions(libraries)
  const version = functions.llama_version()
  if (version !== llamaVersion) {
    throw new Error(`expected llama.cpp ${llamaVersion}, got ${version} in ${libraries.llama}`)
  }
  checkLayouts(functions)
  return functions
}

/**
 * Like {@link openFfi}, for a library that contains all of llama.cpp and that is not loaded yet. It logs to the
 * callback of node-llama-cpp's addon, which any thread may call.
 * @throws Error that says what is missing or different
 */
export function openBuiltFfi(file: string): NativeFunctions {
  const [callback, data] = [pointerCell(), pointerCell()]
  const { llama_log_get } = llamaFunctions
  // before anything of the other library is loaded, which stays
  bindLibrary(loadedLibraries().llama, { llama_log_get }).llama_log_get(callback, data)
  const functions = openFfi({ llama: file, ggml: file, registry: file })
  functions.llama_log_set(callback[0]!, data[0]!)
  functions.llama_backend_init()
  return functions
}

/** The libraries that node-llama-cpp's addon has loaded into this process. */
export function loadedLibraries(paths: readonly string[] = sharedObjects()): FfiLibraries {
  const find = (name: keyof typeof patterns) => {
    const path = paths.find((path) => patterns[name].test(path))
    if (path === undefined) throw new Error(`llama.cpp's library ${name} is not in this process`)
    return path
  }
  return { llama: find('llama'), ggml: find('ggml'), registry: find('registry') }
}

/** Room for one address. */
const pointerCell = (): BigUint64Array => new BigUint64Array(new ArrayBuffer(8))

/** Checks default values at both ends of each struct: if a field had moved, another value would be there. */
function checkLayouts(functions: NativeFunctions): void {
  const model = functions.llama_model_default_params()
  check('llama_model_params', model, {
    devices: null,
    n_gpu_layers: -1,
    split_mode: 1,
    tensor_split: null,
    kv_overrides: null,
    vocab_only: false,
    use_extra_bufts: true,
    no_host: false,
    load_mtp: false,
  })
  check('llama_context_params', functions.llama_context_default_params(), {
    n_ctx: 512,
    n_batch: 2048,
    n_ubatch: 512,
    n_seq_max: 1,
    n_outputs_max_per_seq: 1,
    rope_scaling_type: -1,
    flash_attn_type: -1,
    yarn_ext_factor: -1,
    defrag_thold: -1,
    cb_eval: null,
    type_k: 1,
    type_v: 1,
    embeddings: false,
    offload_kqv: true,
    no_perf: true,
    swa_full: true,
    kv_unified: false,
    n_samplers: 0,
    ctx_other: null,
  })
  const pool = functions.ggml_threadpool_params_default(3)
  check('ggml_threadpool_params', pool, { n_threads: 3, prio: 0, poll: 50, paused: false })
}

function check<T extends object>(struct: string, read: T, expected: Partial<T>): void {
  for (const [field, value] of Object.entries(expected)) {
    const received = (read as Readonly<Record<string, unknown>>)[field]
    if (received === value) continue
    throw new Error(
      `expected ${struct}.${field} to be ${String(value)} by default, got ${String(received)}: ` +
        'this llama.cpp lays its structs out differently',
    )
  }
}
