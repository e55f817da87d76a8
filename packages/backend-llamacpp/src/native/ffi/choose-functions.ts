import type { Logger } from '@cllm/core'
import type { NativeFunctions } from './bind-functions.js'
import { openBuiltFfi, openFfi } from './open-ffi.js'

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
 * loaded where there is none or it cannot be used. Undefined where these cannot be used either. Each
 * step down is logged as a warning.
 */
export function chooseFunctions(
  logger: Logger,
  library: string | undefined,
): ChosenFunctions | undefined {
  if (library !== undefined) {
    try {
      return { functions: bind(library), library }
    } catch (error) {
      const reason = reasonOf(error)
      logger.warn(
        { reason, library },
        `the library that was built here cannot be used (${reason}): running on the prebuilt one; ` +
          '`cllm native build` builds it again',
      )
    }
  }
  try {
    return { functions: bind(undefined), library: undefined }
  } catch (error) {
    const reason = reasonOf(error)
    logger.warn(
      { reason },
      `llama.cpp's C API cannot be used (${reason}): running on node-llama-cpp's addon, which is slower`,
    )
    return undefined
  }
}

function bind(library: string | undefined): NativeFunctions {
  const known = bound.get(library)
  if (known !== undefined) return known
  const functions = library === undefined ? openFfi() : openBuiltFfi(library)
  bound.set(library, functions)
  return functions
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
