import type { LogLevelControl } from '../../routes/define-protocol.js'
import type { KeyStore } from '../../security/api-key.js'
import type { LiveFeed } from './live-feed.js'

/** What the handlers of the admin protocol share. */
export interface AdminContext {
  readonly log: LogLevelControl | undefined
  readonly keys: KeyStore | undefined
  /** What goes on in engines that somebody watches, by model. */
  readonly feeds: Map<string, LiveFeed>
}
