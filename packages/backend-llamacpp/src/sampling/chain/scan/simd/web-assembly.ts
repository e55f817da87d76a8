/** The parts of the global `WebAssembly` that are used: TypeScript has its types among the DOM's. */
interface WebAssemblyApi {
  validate(bytes: Uint8Array): boolean
  readonly Module: new (bytes: Uint8Array) => object
  readonly Memory: new (size: { initial: number }) => { readonly buffer: ArrayBuffer }
  readonly Instance: new (module: object, imports: object) => { readonly exports: object }
}

/** What simd-scan.wat exports; addresses are in bytes. */
export interface SimdExports {
  findLargest(logits: number, maxima: number, blocks: number): number
  collect(
    logits: number,
    maxima: number,
    blocks: number,
    from: number,
    ids: number,
    listed: number,
    packs: number,
  ): number
  weigh(
    logits: number,
    maxima: number,
    blocks: number,
    sums: number,
    weights: number,
    from: number,
    temperature: number,
    shift: number,
  ): number
}

const pageBytes = 65_536

/** WebAssembly, where this JavaScript engine has it. */
const { WebAssembly } = globalThis as { readonly WebAssembly?: WebAssemblyApi }

/** Whether this machine can run the module: it has WebAssembly, and SIMD instructions. */
export function canRun(module: Uint8Array): boolean {
  return WebAssembly?.validate(module) === true
}

/** Starts the module with this much memory. Only where {@link canRun} is true. */
export function start(
  module: Uint8Array,
  bytes: number,
): { readonly exports: SimdExports; readonly memory: ArrayBuffer } {
  if (WebAssembly === undefined) throw new TypeError('there is no WebAssembly')
  const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / pageBytes) })
  const instance = new WebAssembly.Instance(new WebAssembly.Module(module), { scan: { memory } })
  return { exports: instance.exports as SimdExports, memory: memory.buffer }
}
