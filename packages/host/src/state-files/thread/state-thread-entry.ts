// What runs on the thread of a `StateThread`.
import { platform, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { runTask } from './run-task.js'
import type { StateReply, StateTask } from './state-task.js'

const { niceness } = workerData as { readonly niceness: number }

// Of this thread alone on Linux; elsewhere it would be that of the whole process.
if (platform() === 'linux' && niceness > 0) {
  try {
    setPriority(niceness)
  } catch {
    // the process is behind others already
  }
}

parentPort?.on('message', (task: StateTask) => {
  let reply: StateReply = {}
  try {
    reply = { result: runTask(task) }
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    reply = { problem: message, code }
  }
  parentPort?.postMessage(reply, [])
})
