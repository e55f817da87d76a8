// slow: fills the heaps of three processes, 3 s
import { execFileSync } from 'node:child_process'
import { plainEnvironment } from '@cllm/testing'
import t from 'tap'

const dist = new URL('../dist/', import.meta.url)

/** The size of V8's space for new objects after many of them stayed. */
function newSpace(first: string): number {
  const code = `
    import { getHeapSpaceStatistics } from 'node:v8'
    ${first}
    const kept = Array.from({ length: 400_000 }, (_, index) => ({ index: [index] }))
    const spaces = getHeapSpaceStatistics()
    console.log(kept.length && spaces.find((space) => space.space_name === 'new_space').space_size)`
  const args = ['--input-type=module', '--eval', code]
  const env = plainEnvironment(process.env)
  return Number(execFileSync(process.execPath, args, { env, encoding: 'utf8' }))
}

t.test('new objects get no more memory than at the start', async (t) => {
  const usual = newSpace('')
  const table = `(await import('${dist.href}commands/help/command-table.js')).commands`
  for (const command of ['serve', 'worker']) {
    const bytes = newSpace(`await ${table}.get('${command}').load()`)
    t.ok(bytes > 0)
    t.ok(bytes * 4 < usual, `cllm ${command}: ${bytes} bytes instead of ${usual}`)
  }
})
