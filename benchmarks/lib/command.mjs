/** Runs a command of a script as `cllm` runs its own: errors in a line, and Ctrl-C ends it in order. */
export async function dispatch(run) {
  const controller = new AbortController()
  process.once('SIGINT', () => controller.abort())
  const { stdout, stderr, env } = process
  try {
    const io = { stdout, stderr, env, signal: controller.signal }
    process.exitCode = await run(process.argv.slice(2), io)
  } catch (error) {
    stderr.write(`error: ${error.message}\n`)
    process.exitCode = error.code === 'invalid_configuration' ? 2 : 1
  }
}
