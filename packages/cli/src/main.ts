import { dispatch } from './dispatch.js'
import { stopSignal } from './process/stop-signal.js'

const { stdout, stderr, env } = process
for (const output of [stdout, stderr]) {
  output.on('error', (error: NodeJS.ErrnoException) => {
    // Behind `| head` nobody reads the rest.
    if (error.code !== 'EPIPE') throw error
  })
}
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
