// The code of the thread of a `StateThread`.
import { platform, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { stateJobs } from './state-jobs.js'
import type { StateReply, StateTask } from './state-thread.js'

const { niceness } = workerData as { readonly niceness: number }

// On Linux, this thread's priority alone; elsewhere it would be that of the whole process.
if (platform() === 'linux' && niceness > 0) {
  try {
    setPriority(niceness)
  } catch {
    // The process has a low priority already.
  }
}

parentPort?.on('message', ({ name, given }: StateTask) => {
  let reply: StateReply = {}
  try {
    reply = { result: (stateJobs[name] as (...given: unknown[]) => unknown)(...given) }
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    reply = { problem: message, code }
  }
  parentPort?.postMessage(reply, [])
})
