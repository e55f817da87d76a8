import { cpus } from 'node:os'
import { pause } from './servers.mjs'

/** Waits for a quiet machine, at most a minute, and throws if other processes go on computing. */
export async function quiet() {
  let busy
  for (let attempt = 0; attempt < 20; attempt++) {
    busy = await busyShare(3000)
    if (busy < 0.05) return
  }
  const percent = Math.round(busy * 100)
  throw new Error(`other processes use ${percent} % of the cores; figures need a quiet machine`)
}

/** The share of all cores' time that was used, over a span. */
async function busyShare(milliseconds) {
  const before = coreTimes()
  await pause(milliseconds)
  const after = coreTimes()
  return 1 - (after.idle - before.idle) / (after.all - before.all)
}

function coreTimes() {
  let idle = 0
  let all = 0
  for (const { times } of cpus()) {
    idle += times.idle
    for (const time of Object.values(times)) all += time
  }
  return { idle, all }
}
