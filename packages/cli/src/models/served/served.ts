import type { ClosableDirectory } from '@cllm/host'
import type { Logger } from '@cllm/core'
import type { CreateLimitCounter, ModelStore, OpenBatches } from '@cllm/http-koa'
import type { KeySources, OpenKeyRing } from '../../keys/open-key-ring.js'

/** What the fronts of a cluster share. */
export interface SharedWithFronts {
  readonly limitCounters: CreateLimitCounter
  /** The cluster's batches, where they are wanted. */
  readonly batches?: OpenBatches
  /** Opens the cluster's keys. Throws `cluster_unavailable`. */
  readonly openKeys: (sources: KeySources, logger: Logger) => Promise<OpenKeyRing>
}

/** The models that a server serves, and where they are. */
export interface Served {
  readonly directory: ClosableDirectory
  /** Fetches further models; absent: these are all. */
  readonly store?: ModelStore
  /** What is shared with other fronts; absent for a server of its own. */
  readonly shared?: SharedWithFronts
  /** Loads the models that are there before requests are served. */
  readonly load: () => Promise<void>
  /** Ends it, the directory too. */
  readonly close: () => Promise<void>
  /** Resolves with the reason when the server cannot go on, such as without its single engine. */
  readonly death: Promise<string>
  /** Changes the log level of all engines. */
  readonly setLogLevel: (level: string) => void
}
