import type { Random } from '../contracts/clock.js'

/** 32 random hex digits. */
export function requestId(random: Random): string {
  const parts = Array.from({ length: 4 }, () => random.uint32().toString(16).padStart(8, '0'))
  return parts.join('')
}
