import { readFile } from 'node:fs/promises'
import t from 'tap'
import { testNames } from './parse-tests.js'

const root = new URL('../../../../', import.meta.url)

t.test('every failure class names tests that exist and run', async (t) => {
  const page = await readFile(new URL('docs/reliability.md', root), 'utf8')
  const [classes = ''] = page.split('## Measured')
  const rows = classes.split('\n').filter((line) => /^\| (?!failure \|)/.test(line))
  t.ok(rows.length > 20)
  for (const row of rows) {
    const proofs = [...row.matchAll(/`([\w/.-]+\.test\.ts)` \("([^"]+)"\)/g)]
    t.ok(proofs.length > 0, row.slice(0, 60))
    for (const [, path = '', name = ''] of proofs) {
      const file = await readFile(new URL(`packages/${path}`, root), 'utf8')
      t.ok(testNames(file).has(name), `${path}: ${name}`)
    }
  }
})

t.test('only tests that run count', async (t) => {
  const file = `
    import { named } from 'imported'
    // t.test('in a comment', async () => {})
    t.test('runs', async (t) => { t.test('inside', () => {}) })
    testEach('each', async () => {})
    t.test('skipped', { skip: true }, async () => {})
    t.test('to do', { todo: 'later' }, async () => {})
    t.skip('skipped too', async () => {})
    t.test('without a body')
    t.ok('no test', () => {})
    t.test('with options', { timeout: 1 }, async () => {})
  `
  t.same([...testNames(file)], ['runs', 'inside', 'each', 'with options'])
})
