import { dispatch } from './dispatch.js'
import { stopSignal } from './process/stop-signal.js'

const { stdout, stderr, env } = process
process.exitCode = await dispatch(process.argv.slice(2), {
  stdout,
  stderr,
  env,
  signal: stopSignal(env),
  // Opened only by the commands that read it.
  get stdin() {
    return process.stdin
  },
})
