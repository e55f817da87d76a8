// What runs on the thread of a `StateThread`.
import { platform, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { runTask } from './run-task.js'
import type { StateReply, StateTask } from './state-task.js'

/** Behind the threads that compute: those of a step wait for the slowest of them. */
const niceness = 10

// Of this thread alone on Linux; elsewhere it would be that of the whole process.
if (platform() === 'linux') {
  try {
    setPriority(niceness)
  } catch {
    // the process is behind others already
  }
}

parentPort?.on('message', (task: StateTask) => {
  let reply: StateReply = {}
  try {
    runTask(task)
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    reply = { problem: message, code }
  }
  parentPort?.postMessage(reply, [])
})
