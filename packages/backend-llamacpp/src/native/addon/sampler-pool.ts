import type { NativeSampler, NativeSamplerConfig } from './addon-types.js'

/** A native sampler that remembers its seed. */
export class PooledSampler {
  #seed: number | undefined

  constructor(readonly native: NativeSampler) {}

  /** Configures for one draw: with the same configuration the same draw, however often. */
  apply(config: NativeSamplerConfig): void {
    // llama.cpp goes on in its random sequence when the seed is the one that it has
    if (config.temperature > 0 && config.seed === this.#seed) {
      this.native.applyConfig({ ...config, seed: (config.seed ^ 1) >>> 0 })
    }
    this.native.applyConfig(config)
    this.#seed = config.seed
  }
}

/**
 * Native samplers, used again: each keeps a list as long as the vocabulary (1.8 MB at 150,000
 * entries) that is not given back for a long time after it was disposed of.
 */
export class SamplerPool {
  readonly #free: PooledSampler[] = []

  constructor(private readonly create: () => NativeSampler) {}

  take(): PooledSampler {
    return this.#free.pop() ?? new PooledSampler(this.create())
  }

  give(sampler: PooledSampler): void {
    this.#free.push(sampler)
  }

  /** Disposes of the free samplers; samplers in use are not affected. */
  dispose(): void {
    for (const { native } of this.#free.splice(0)) native.dispose()
  }
}
