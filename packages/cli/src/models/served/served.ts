import type { ClosableDirectory } from '@cllm/core'
import type { ModelStore } from '@cllm/http-koa'

/** The models that a server serves, and where they are. */
export interface Served {
  readonly directory: ClosableDirectory
  /** Fetches further models; absent: these are all. */
  readonly store?: ModelStore
  /** Loads the models that are there before requests are served. */
  readonly load: () => Promise<void>
  /** Ends it, the directory too. */
  readonly close: () => Promise<void>
  /** Resolves with the reason when the server cannot go on, such as without its single engine. */
  readonly death: Promise<string>
  /** Changes the log level of all engines. */
  readonly setLogLevel: (level: string) => void
}
