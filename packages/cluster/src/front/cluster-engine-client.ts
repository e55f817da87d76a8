import type { Recording } from '@cllm/core'
import { type RecordingParts, RemoteEngineClient, writeRecording } from '@cllm/host'
import { ClusterChannel, type ClusterChannelParts } from './cluster-channel.js'

/**
 * The workers of a cluster that serve one model, as one engine. Each request goes to the worker that the
 * router names. When a worker dies, drains to its end or is cut off, its requests go on at another one
 * after the last token that their clients have: no token is lost, repeated or, on a worker of the same
 * fingerprint, changed. Draining and closing end the client and no worker.
 */
export class ClusterEngineClient extends RemoteEngineClient {
  /** The workers behind it. */
  readonly workers: ClusterChannel

  constructor(parts: ClusterChannelParts) {
    const workers = new ClusterChannel(parts)
    super(workers, parts.random)
    this.workers = workers
  }

  /** What the flight recorders of all workers have. Throws `unsupported` where they are off. */
  async recording(): Promise<Recording> {
    return writeRecording(await this.recordingParts())
  }

  /** What {@link recording} is made of: it may be put together with others. */
  async recordingParts(): Promise<RecordingParts> {
    return (await this.forward('recordingParts', [])) as RecordingParts
  }
}
