import { setTimeout as pause } from 'node:timers/promises'

/** Asks again and again, for two minutes at most, and leaves what is asked some time for its own work in between. */
export async function until(isSo: () => Promise<boolean>, everyMs = 10): Promise<void> {
  const since = performance.now()
  while (!(await isSo())) {
    if (performance.now() - since > 120_000)
      throw new Error(`not within two minutes: ${String(isSo)}`)
    await pause(everyMs)
  }
}
