import { readFileSync } from 'node:fs'
import t from 'tap'

const root = new URL('../../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

t.test('the code of the README is that of the tested examples', (t) => {
  const blocks = Array.from(
    read('packages/http-koa/README.md').matchAll(/```js\n([^]*?)```/g),
    ([, code]) => code,
  )
  const examples = ['examples/compose-server/server.js', 'examples/protocol-plugin/plain-text.js']
  t.same(
    blocks,
    examples.map((path) => read(path).replace('// @ts-check\n', '')),
  )
  t.end()
})
