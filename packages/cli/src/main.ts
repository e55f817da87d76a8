import { dispatch } from './dispatch.js'

const controller = new AbortController()
// Only the first signal asks for an orderly end; the next one has its usual effect.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => controller.abort(signal))
}

const { stdout, stderr, env } = process
process.exitCode = await dispatch(process.argv.slice(2), {
  stdout,
  stderr,
  env,
  signal: controller.signal,
})
