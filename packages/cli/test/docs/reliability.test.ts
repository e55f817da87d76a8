import { readFile } from 'node:fs/promises'
import t from 'tap'

const root = new URL('../../../../', import.meta.url)

t.test('every failure class has a test, which is there', async (t) => {
  const page = await readFile(new URL('docs/reliability.md', root), 'utf8')
  const [classes = ''] = page.split('## Measured')
  const rows = classes.split('\n').filter((line) => /^\| (?!failure \|)/.test(line))
  t.ok(rows.length > 20)
  for (const row of rows) {
    const proofs = [...row.matchAll(/`([\w/.-]+\.test\.ts)` \("([^"]+)"\)/g)]
    t.ok(proofs.length > 0, row.slice(0, 60))
    for (const [, path = '', name = ''] of proofs) {
      const file = await readFile(new URL(`packages/${path}`, root), 'utf8')
      t.ok(file.includes(name), `${path}: ${name}`)
    }
  }
})
