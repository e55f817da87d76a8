import { messageOf, entryOf } from '@cllm/core'
import koffi from 'koffi'
import { promisify } from 'node:util'
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

type Signatures = Readonly<Record<string, readonly [CType, ...CType[]]>>
type KoffiType = ReturnType<typeof koffi.type>

const plain: Readonly<Record<string, string>> = { pointer: 'void *', string: 'const char *' }

/** Koffi's types of the structs: anonymous, as its names are global to the process. */
const structTypes = new Map<string, KoffiType>()

/** Where the functions are. One file may hold them all. */
export interface FfiLibraries {
  readonly llama: string
  readonly ggml: string
  readonly registry: string
}

/** llama.cpp's C functions and some of ggml's. */
export type NativeFunctions = Bound<
  typeof llamaFunctions & typeof ggmlFunctions & typeof registryFunctions & typeof deviceFunctions
> & {
  /** The address of `ggml_is_empty`. */
  readonly emptinessOfTensors: Pointer
}

/**
 * Binds every function.
 * @throws Error of koffi that names the library or function that is missing
 */
export function bindFunctions({ llama, ggml, registry }: FfiLibraries): NativeFunctions {
  const functions = {
    ...bindLibrary(llama, llamaFunctions),
    ...bindLibrary(ggml, ggmlFunctions),
    ...bindLibrary(registry, registryFunctions),
  }
  const emptinessOfTensors: Pointer = load(ggml).symbol('ggml_is_empty')
  return { ...functions, ...bindDevice(functions), emptinessOfTensors }
}

/** The functions of the library for images, and llama.cpp's that it is linked with. */
export type MediaFunctions = Bound<typeof mediaFunctions & typeof llamaFunctions>

/**
 * Binds the functions of a library for images.
 * @throws Error of koffi that names the library or function that is missing
 */
export function bindMediaFunctions(file: string): MediaFunctions {
  return { ...bindLibrary(file, llamaFunctions), ...bindLibrary(file, mediaFunctions) }
}

/** Native memory as an `ArrayBuffer`: it must not be touched once llama.cpp has freed it. */
export function viewMemory(pointer: Pointer, bytes: number): ArrayBuffer {
  return koffi.view(pointer, bytes)
}

/** A struct in native form, to pass by pointer. */
export function encodeStruct<N extends StructName>(name: N, value: Value<N>): Uint8Array {
  const bytes = new Uint8Array(new ArrayBuffer(koffi.sizeof(typeOf(name))))
  koffi.encode(bytes, typeOf(name), value)
  return bytes
}

/**
 * Where the numbers of an array are. Only for arrays over an `ArrayBuffer` of their own: V8 may move
 * the numbers of other short arrays.
 */
export function addressOf(array: NodeJS.TypedArray): Pointer {
  return koffi.address(array)
}

/** A native function that runs on libuv's thread pool. */
export function onPool<A extends readonly unknown[], R>({
  async: run,
}: Pick<NativeFunction<R, A>, 'async'>): (...args: A) => Promise<R> {
  return promisify(run) as unknown as (...args: A) => Promise<R>
}

/** Runs a native function on libuv's thread pool. */
export async function runAsync<A extends readonly unknown[], R>(
  run: Pick<NativeFunction<R, A>, 'async'>,
  ...args: A
): Promise<R> {
  return await onPool(run)(...args)
}

function bindLibrary<T extends Signatures>(path: string, signatures: T): Bound<T> {
  const library = load(path)
  const bind = ([name, [result, ...args]]: [string, readonly [CType, ...CType[]]]) =>
    [name, library.func(name, typeOf(result), args.map(typeOf))] as const
  return Object.fromEntries(Object.entries(signatures).map(bind)) as unknown as Bound<T>
}

function load(path: string): ReturnType<typeof koffi.load> {
  try {
    return koffi.load(path)
  } catch (cause) {
    throw new Error(`${path}: ${messageOf(cause)}`, { cause })
  }
}

/** The CPU gives its functions out by name, as the library that they are in depends on the machine. */
function bindDevice(
  functions: Bound<typeof ggmlFunctions & typeof registryFunctions>,
): Bound<typeof deviceFunctions> {
  const cpu = 0
  const device = functions.ggml_backend_dev_by_type(cpu)
  const registry = functions.ggml_backend_dev_backend_reg(device)
  const bind = ([name, [result, ...args]]: [string, readonly [CType, ...CType[]]]) => {
    const address = functions.ggml_backend_reg_get_proc_address(registry, name)
    if (address === null) throw new Error(`the CPU device has no function ${name}`)
    return [name, koffi.decode(address, koffi.proto(typeOf(result), args.map(typeOf)))] as const
  }
  const bound = Object.entries<readonly [CType, ...CType[]]>(deviceFunctions).map(bind)
  return Object.fromEntries(bound) as unknown as Bound<typeof deviceFunctions>
}

function typeOf(type: CType): KoffiType {
  if (type === 'bool[512]') return koffi.array('bool', 512)
  if (!(type in structs)) return koffi.type(plain[type] ?? type)
  return entryOf(structTypes, type, () => {
    const fields = Object.entries<CType>(structs[type as StructName])
    return koffi.struct(Object.fromEntries(fields.map(([name, of]) => [name, typeOf(of)])))
  })
}
