// What npm would publish: every package is packed, and publint and attw look at the archive. Packages
// are ES modules only, so attw's checks of `require` are left out. Needs `tsc -b`.
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = await mkdtemp(join(tmpdir(), 'cllm-packages-'))

/** Runs a program in the workspace; the result is what it printed, if it failed. */
const failure = (program, ...args) =>
  new Promise((resolve) => {
    execFile(program, args, { cwd: root }, (error, stdout, stderr) =>
      resolve(error === null ? undefined : `${[program, ...args].join(' ')}\n${stdout}${stderr}`),
    )
  })

const bin = (name) => join(root, 'node_modules', '.bin', name)

const failures = []
const packArguments = ['--filter', './packages/**', 'pack', '--pack-destination', folder]
failures.push(await failure('npx', '-y', 'pnpm@10.34.8', ...packArguments))
const checks = (await readdir(folder)).flatMap((file) => [
  ['publint', join(folder, file), '--strict'],
  ['attw', join(folder, file), '--profile', 'esm-only', '--no-color'],
])
const packages = checks.length / 2
const work = async () => {
  for (let next = checks.pop(); next !== undefined; next = checks.pop()) {
    const [program, ...args] = next
    failures.push(await failure(bin(program), ...args))
  }
}
await Promise.all(Array.from({ length: availableParallelism() }, work))
await rm(folder, { recursive: true })

const found = failures.filter((one) => one !== undefined)
for (const one of found) console.error(one)
console.log(`${packages} packages checked by publint and attw, ${found.length} failures`)
process.exitCode = found.length > 0 || packages === 0 ? 1 : 0
