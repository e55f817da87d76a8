import { sharedObjects } from '../open/binaries.js'
import { llamaVersion } from '../versions.js'
import { bindFunctions, type FfiLibraries, type NativeFunctions } from './bind-functions.js'

/** Of a build for GPUs, the names say which: `libllama.cuda.v0.5.0.so`. */
const patterns = {
  llama: /[\\/](?:lib)?llama(?:\.[a-z]+)?(?:\.v[\d.]+)?\.(?:so|dylib|dll)$/,
  ggml: /[\\/](?:lib)?ggml-base\.(?:so|dylib|dll)$/,
  registry: /[\\/](?:lib)?ggml(?:\.[a-z]+)?(?:\.v[\d.]+)?\.(?:so|dylib|dll)$/,
}

/**
 * Binds the C functions of llama.cpp in the libraries that this process has loaded, and checks that
 * their structs are laid out as we write them.
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
 * The same in a library that holds all of llama.cpp and that nothing has loaded yet. What it logs goes
 * where node-llama-cpp's libraries log: the addon's callback may be called by any thread.
 * @throws Error that says what is missing or different
 */
export function openBuiltFfi(file: string): NativeFunctions {
  const functions = openFfi({ llama: file, ggml: file, registry: file })
  const [callback, data] = [pointerCell(), pointerCell()]
  openFfi().llama_log_get(callback, data)
  functions.llama_log_set(callback[0]!, data[0]!)
  functions.llama_backend_init()
  return functions
}

/** The libraries that node-llama-cpp's addon has brought into this process. */
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

/** Reads defaults back from both ends of each struct: a field that moved would show another value. */
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
