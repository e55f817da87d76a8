import { AsyncLocalStorage } from 'node:async_hooks'
import type { ApiKey } from './api-key.js'

/** On whose behalf something is done. */
export interface RequestScope {
  readonly key: ApiKey
}

/**
 * The request that is being answered. It is known wherever an engine is asked for something, so that
 * no protocol, a plugin's neither, can forget whose request it is.
 */
export const requestScope = new AsyncLocalStorage<RequestScope>()

/** Whether the request may change the server: with an admin's key, or where no keys are needed. */
export const mayChangeServer = (): boolean => requestScope.getStore()?.key.role !== 'user'
