import { createServer } from '@cllm/host'
import { testBackend } from '@cllm/testing'
import { koaTransport, nativeProtocol } from '@cllm/http-koa'
import { createPolicy } from '@cllm/scheduler'
import t from 'tap'
import { ngramBackend } from '../ngram-backend.js'

const text =
  'the cat sat on the mat and the dog sat on the cat and the cat ran to the dog and the mat was ' +
  'on the dog as the dog sat and the café was shut'

t.test('it is a backend', (t) => testBackend(t, async () => ngramBackend({ text })))

t.test('it can be served', async (t) => {
  const server = createServer({
    backend: ngramBackend({ text }),
    policy: createPolicy(),
    transports: [koaTransport({ port: 0, protocols: [nativeProtocol()] })],
  })
  t.teardown(() => server.close())
  const [address] = await server.listen()
  const ask = async (seed: number): Promise<string> => {
    const response = await fetch(`${address?.url}/generate`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'the cat', max_tokens: 24, temperature: 1, seed }),
    })
    const answer = (await response.json()) as { data: { text: string } }
    return answer.data.text
  }
  const answers = await Promise.all([1, 2, 3, 4, 5, 1].map(ask))
  t.equal(answers[0], answers[5], 'one seed, one answer')
  t.ok(new Set(answers).size > 2, 'other seeds, other answers')
  for (const answer of answers) t.match(answer, /^ (sat|ran|and|was)/)
})
