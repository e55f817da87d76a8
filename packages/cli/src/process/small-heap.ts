import { setFlagsFromString } from 'node:v8'

/**
 * Keeps V8's memory for new objects as small as it is at the start, a few MiB: it otherwise grows to 48 MiB
 * and stays. V8 reads this flag each time it would grow it, so that it can be set in a running process.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1')
}
