// `pnpm start`: builds, and then is `cllm serve` with the flags that were given.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { endWithLaunchers } from './end-with-launchers.mjs'

const cwd = fileURLToPath(new URL('..', import.meta.url))
const shell = process.platform === 'win32' // where `tsc` is a script
endWithLaunchers()
for (const [what, program, ...args] of [
  ['building the packages', 'tsc', '-b'],
  ['building the page', process.execPath, 'packages/web/build.mjs'],
]) {
  process.stderr.write(`${what} …\n`)
  const { status, signal } = spawnSync(program, args, { cwd, stdio: 'inherit', shell })
  if (signal !== null) process.kill(process.pid, signal)
  if (status !== 0) process.exit(status ?? 1)
}
process.argv.splice(2, 0, 'serve')
await import('../packages/cli/dist/main.js')
