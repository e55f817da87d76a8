import { PlainScan } from './plain-scan.js'
import { SimdScan } from './simd/simd-scan.js'
import type { VocabularyScan } from './vocabulary-scan.js'

/** A scan for a vocabulary of this size, with SIMD instructions where the machine has them. */
export function scanFor(size: number, simd = SimdScan.isSupported()): VocabularyScan {
  return simd ? new SimdScan(size) : new PlainScan(size)
}
