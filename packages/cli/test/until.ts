import { setTimeout as pause } from 'node:timers/promises'

/** Asks again and again, and leaves what is asked some time for its own work in between. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await pause(10)
}
