import type { InitializeHook, ResolveHook } from 'node:module'

/** Modules that lend their packages to plug-ins. */
let lenders: readonly string[] = []

const lent = /^(?:@cllm\/[\w-]+|zod)(?:\/|$)/

/** Takes the modules that `lendPackages` names; Node calls it on the thread of the hooks. */
export const initialize: InitializeHook<readonly string[]> = (from) => {
  lenders = from
}

/** Resolves an import; a module without that package gets a lender's. */
export const resolve: ResolveHook = async (specifier, context, next) => {
  try {
    return await next(specifier, context)
  } catch (error) {
    if (!lent.test(specifier)) throw error
    for (const parentURL of lenders) {
      const found = await Promise.resolve(next(specifier, { ...context, parentURL })).catch(
        () => {},
      )
      if (found !== undefined) return found
    }
    throw error
  }
}
