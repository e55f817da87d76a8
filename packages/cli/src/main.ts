import { dispatch } from './dispatch.js'
import { stopSignal } from './process/stop-signal.js'

const { stdout, stderr, env } = process
for (const output of [stdout, stderr]) {
  output.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    // Behind `| head` nobody reads the rest. A server on a full disk goes on; a failure is reported only once.
    if (code === 'EPIPE' || process.exitCode === 1) return
    process.exitCode = 1
    if (output === stdout) stderr.write(`error: Cannot write the output: ${message}\n`)
  })
}
const exitCode = await dispatch(process.argv.slice(2), {
  stdout,
  stderr,
  env,
  signal: stopSignal(env),
  // Opened only by the commands that read it.
  get stdin() {
    return process.stdin
  },
})
if (exitCode !== 0) process.exitCode = exitCode
