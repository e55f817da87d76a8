// Fails when the tests cover less than `coverage-floor.json` says, in percent of all packages. Reads
// what `tap --coverage-report=json-summary` left. Raise the floor when the numbers have risen.
import { readFile } from 'node:fs/promises'

const read = async (path) => JSON.parse(await readFile(new URL(path, import.meta.url), 'utf8'))

const floor = await read('coverage-floor.json')
const { total } = await read('../.tap/report/coverage-summary.json')

for (const [kind, least] of Object.entries(floor)) {
  const { covered, total: all, pct } = total[kind]
  const isEnough = covered >= (all * least) / 100
  console.log(`${kind}: ${covered} of ${all} covered, ${pct} %; the floor is ${least} %`)
  if (!isEnough) process.exitCode = 1
}
if (process.exitCode === 1) console.error('The tests cover less than .ci/coverage-floor.json says.')
