interface GivenOptions {
  readonly kvCacheType: string
  readonly kvUnified?: string
  readonly poll: number
  readonly ubatchSize?: unknown
  readonly kvTokens?: unknown
  readonly pooling?: unknown
  readonly rope?: unknown
  readonly placement?: unknown
}

/** The names of given options that the addon does not have. */
export function unknownToAddon(options: GivenOptions): string[] {
  const { kvCacheType, kvUnified, poll, ubatchSize, kvTokens, pooling, rope, placement } = options
  const given = Object.entries({ ubatchSize, kvTokens, pooling, rope, placement })
  return [
    ...given.filter(([, option]) => option !== undefined).map(([name]) => name),
    ...(kvCacheType === 'f16' || kvCacheType === 'q8_0' ? [] : ['kvCacheType']),
    ...(kvUnified === 'on' && kvTokens === undefined ? ['kvUnified'] : []),
    ...(poll === 50 ? [] : ['poll']),
  ]
}
