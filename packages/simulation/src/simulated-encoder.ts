import {
  type Clock,
  type EncodedMedia,
  type EncodeJob,
  type MediaEncoder,
  type MediaFile,
  pause,
} from '@cllm/core'
import { promptIds } from './prompt-ids.js'

/** What encoding costs on a simulated machine. */
export interface SimulatedEncodes {
  /** Milliseconds of an image. */
  readonly encodeMs: number
  /** Share of the machine that steps lose while one is encoded, 0 to 1: 0 where it has a processor of its own. */
  readonly lostShare: number
}

/** Encodes on simulated time, beside the steps. The data of an image is the number of its tokens, a space and its name. */
export class SimulatedEncoder implements MediaEncoder {
  #isBusy = false

  constructor(
    private readonly clock: Clock,
    private readonly costs: SimulatedEncodes,
  ) {}

  /** How many times as long a step takes now. */
  get slowness(): number {
    return this.#isBusy ? 1 / (1 - this.costs.lostShare) : 1
  }

  async prepare({ data }: MediaFile): Promise<EncodeJob> {
    const length = Number.parseInt(data, 10)
    return { key: data, size: length, run: async () => await this.#encode(data, length) }
  }

  async #encode(key: string, length: number): Promise<EncodedMedia> {
    this.#isBusy = true
    await pause(this.clock, this.costs.encodeMs)
    this.#isBusy = false
    const vectors = new Float32Array(length)
    return { tokens: promptIds([{ key, tokens: length }]), spans: [{ start: 0, length, vectors }] }
  }
}
