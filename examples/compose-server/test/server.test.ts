import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { resolveModel } from 'cllm'
import t from 'tap'
import { listening, startNode } from '../../../packages/cli/test/start-process.js'

const file = fileURLToPath(new URL('../server.js', import.meta.url))

t.test('the composed server serves and stops', async (t) => {
  const { path } = await resolveModel('stories15m')
  const child = startNode(t, [file, path, '0'])
  const { url } = await listening(t, child)
  const response = await fetch(`${url}/generate`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Once upon a time', max_tokens: 8, temperature: 0 }),
  })
  t.match(await response.json(), {
    success: true,
    data: { text: ', there was a little girl named L' },
  })
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
})

t.test('the README of the transport shows this file', async (t) => {
  const readme = readFileSync(
    new URL('../../../packages/http-koa/README.md', import.meta.url),
    'utf8',
  )
  const code = readFileSync(file, 'utf8').replace('// @ts-check\n', '')
  t.ok(readme.includes(code), 'it and examples/compose-server/server.js are the same')
})
