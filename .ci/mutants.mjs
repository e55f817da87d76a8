// Whether the tests would notice a defect: breaks the heart of the project in many small ways, one at a time, and runs the
// tests of its folder on each (StrykerJS). Fails when a folder's tests notice a smaller share than `mutants.json` says, which
// is what they noticed when it was written; one that was taken from a sample may be off by two standard errors.
//
//   pnpm mutants                        all folders of `mutants.json`, which takes hours
//   pnpm mutants host/fleet             one of them; what survived is listed
//   pnpm mutants host/fleet --every 6   every sixth mutant
//   pnpm mutants host/fleet --record    takes what is found into `mutants.json`
//
// It changes what `tsc -b` wrote, and puts that back at its end; after a kill `tsc -b --force` does.
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const stryker = ['-y', '-p', '@stryker-mutator/core@9.6.1', 'stryker']
const config = fileURLToPath(new URL('mutants.config.mjs', import.meta.url))
const path = new URL('mutants.json', import.meta.url)
const results = 'node_modules/.cache/mutants.json'
const known = JSON.parse(readFileSync(path, 'utf8'))
const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    every: { type: 'string', default: '1' },
    record: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '2' },
  },
})

for (const folder of positionals.length > 0 ? positionals : Object.keys(known)) {
  if (known[folder] === undefined) {
    throw new Error(`expected one of ${Object.keys(known).join(', ')}, got ${folder}`)
  }
  const { tests, ...before } = known[folder]
  const env = { MUTANTS: folder, MUTANTS_EVERY: flags.every, MUTANTS_JOBS: flags.jobs }
  const run = { stdio: 'inherit', env: { ...process.env, ...env } }
  rmSync(results, { force: true })
  const { status } = spawnSync('npx', [...stryker, 'run', config], run)
  if (status !== 0) throw new Error(`StrykerJS failed in ${folder}`)
  const found = { ...countMutants(), every: Number(flags.every) }
  const least = share(before) - 2 * Math.hypot(standardError(before), standardError(found))
  console.log(
    `${folder}: ${JSON.stringify(found)}, ${share(found).toFixed(3)}, at least ${least.toFixed(3)}`,
  )
  if (flags.record) known[folder] = { tests, ...found }
  // Also where nothing was tried, whose share is no number.
  else if (!(share(found) >= least)) process.exitCode = 1
}
if (flags.record) writeFileSync(path, `${JSON.stringify(known, undefined, 2)}\n`)

function countMutants() {
  const { files } = JSON.parse(readFileSync(results, 'utf8'))
  const count = { killed: 0, survived: 0 }
  for (const { status } of Object.values(files).flatMap(({ mutants }) => mutants)) {
    if (status === 'Killed' || status === 'Timeout') count.killed++
    else if (status === 'Survived' || status === 'NoCoverage') count.survived++
  }
  return count
}

function share({ killed, survived }) {
  return killed / (killed + survived)
}

function standardError({ killed, survived, every }) {
  const p = share({ killed, survived })
  return every === 1 ? 0 : Math.sqrt((p * (1 - p)) / (killed + survived))
}
