import type { Logger } from '@cllm/core'
import type { NativeFunctions } from './bind-functions.js'
import type * as OpenFfi from './open-ffi.js'

/** llama.cpp's C functions, and where they are. */
export interface ChosenFunctions {
  readonly functions: NativeFunctions
  /** The library that was built on this machine; undefined: node-llama-cpp's. */
  readonly library: string | undefined
}

/** What was bound, by the library's file: once per process. */
const bound = new Map<string | undefined, NativeFunctions>()

/**
 * Binds the C functions of the library that was built on this machine, or of those that the addon has
 * loaded where there is none or it cannot be used. Undefined where these cannot be used either, or koffi
 * has no binary for this platform. Each step down is logged as a warning.
 */
export async function chooseFunctions(
  logger: Logger,
  library: string | undefined,
): Promise<ChosenFunctions | undefined> {
  try {
    // Not at the top: where koffi's binary is missing it throws while it is imported.
    const open = await import('./open-ffi.js')
    if (library !== undefined) {
      const functions = bindBuilt(open, library, logger)
      if (functions !== undefined) return { functions, library }
    }
    return { functions: bind(undefined, () => open.openFfi()), library: undefined }
  } catch (error) {
    const reason = reasonOf(error)
    logger.warn(
      { reason },
      `llama.cpp's C API cannot be used (${reason}): running on node-llama-cpp's addon, which is slower`,
    )
    return undefined
  }
}

function bindBuilt(
  { openBuiltFfi }: typeof OpenFfi,
  library: string,
  logger: Logger,
): NativeFunctions | undefined {
  try {
    return bind(library, () => openBuiltFfi(library))
  } catch (error) {
    const reason = reasonOf(error)
    logger.warn(
      { reason, library },
      `the library that was built here cannot be used (${reason}): running on the prebuilt one; ` +
        '`cllm native build` builds it again',
    )
    return undefined
  }
}

function bind(library: string | undefined, open: () => NativeFunctions): NativeFunctions {
  const known = bound.get(library)
  if (known !== undefined) return known
  const functions = open()
  bound.set(library, functions)
  return functions
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
