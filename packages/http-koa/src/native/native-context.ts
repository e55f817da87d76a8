import type { EngineDirectory } from '@cllm/core'
import type { KoaContext } from '../koa-context.js'
import type { NativeDefaults } from './generate-request.js'
import type { UnknownFields } from './unknown-fields.js'
import type { WaitTimes } from './wait-times.js'

/** What the handlers of the native protocol share. */
export interface NativeContext {
  readonly directory: EngineDirectory
  readonly version: string
  readonly defaults: NativeDefaults
  readonly maxQueuedRequests: number
  readonly endpoints: readonly NativeEndpoint[]
  readonly unknownFields: UnknownFields
  readonly waitTimes: WaitTimes
}

/** One route. */
export interface NativeEndpoint {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly description: string
  readonly handle: (ctx: KoaContext, native: NativeContext) => void | Promise<void>
}
