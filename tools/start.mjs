// `pnpm start`: pnpm has installed by now; this builds what serves, and then is `cllm serve` with the flags
// that were given.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { endWithLaunchers } from './end-with-launchers.mjs'

const cwd = fileURLToPath(new URL('..', import.meta.url))
const shell = process.platform === 'win32' // where `tsc` is a script
const say = (text) => process.stderr.write(text)
endWithLaunchers()
say('1/3 installed\n')
for (const [what, program, ...args] of [
  ['2/3 building the packages, which takes up to a minute', 'tsc', '-b', 'packages/cli'],
  ['    building the page', process.execPath, 'packages/web/build.mjs'],
]) {
  const began = Date.now()
  const seconds = () => `${Math.round((Date.now() - began) / 1000)} s`
  say(`${what} …\n`)
  const timer = setInterval(() => say(`    … ${seconds()}\n`), 10_000)
  const child = spawn(program, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'], shell })
  const [code, signal] = await once(child, 'close')
  clearInterval(timer)
  if (signal !== null) process.kill(process.pid, signal)
  if (code !== 0) process.exit(code ?? 1)
}
say('3/3 starting the server\n')
process.argv.splice(2, 0, 'serve')
await import('../packages/cli/dist/main.js')
