import type { Clock, Logger, Random } from '@cllm/core'
import type { BatchJobs, BatchStore } from './batch-store.js'
import type { SendLine } from './lines/line-sender.js'

/** What batches are run with. */
export interface BatchJobsParts {
  /** Answers a line. */
  readonly send: SendLine
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** Lines that this process computes at a time. */
  readonly concurrency: number
}

/** Files and batches, and what runs them. */
export interface OpenBatches {
  readonly store: BatchStore
  readonly jobs: BatchJobs
}

/** The batches of several servers, each of which computes lines of all of them. */
export interface SharedBatches {
  /** Joins in; called once, when the server is made. */
  open(parts: BatchJobsParts): OpenBatches
}
