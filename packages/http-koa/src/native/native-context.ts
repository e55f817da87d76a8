import type { EngineDirectory } from '@cllm/core'
import type { ApiRoute } from '../request/api-route.js'
import type { ProtocolDefaults } from '../request/protocol-defaults.js'
import type { UnknownFields } from './unknown-fields.js'
import type { WaitTimes } from './wait-times.js'

/** What the handlers of the native protocol share. */
export interface NativeContext {
  readonly directory: EngineDirectory
  readonly version: string
  readonly defaults: ProtocolDefaults
  readonly maxQueuedRequests: number
  /** What `GET /` lists. */
  readonly routes: readonly ApiRoute[]
  readonly unknownFields: UnknownFields
  readonly waitTimes: WaitTimes
}
