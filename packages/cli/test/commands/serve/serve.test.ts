import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { inside } from '../../inside.js'
import { childrenOf, gone, quickModel } from '../../plain-process.js'
import { model, serve, stop } from '../../serve-process.js'
import { until } from '../../until.js'

async function post(url: string, path: string, body: unknown): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
}

t.test('cllm serve', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'config.yaml')
  const yaml = `
server: { host: "0.0.0.0", port: 8080, num_threads: 8, min_threads: 4 }
model: { path: ${JSON.stringify(model)}, max_context_length: 2048, quantization: "q4_k_m" }
backend:
  llama_cpp: { n_batch: 512, n_threads: 4, n_gpu_layers: 99, n_seq_max: 8 }
scheduler: { max_batch_size: 32, batch_timeout_ms: 500, request_timeout: 60.0 }
`
  writeFileSync(file, yaml)
  const plugin = fileURLToPath(
    new URL('../../../../../examples/scheduler-plugin/shortest-first.js', import.meta.url),
  )
  const args = ['--config', file, '--plugin', plugin, '--policy', 'shortest-first']
  const limits = ['--body-limit', '2048', '--ignore-memory-check', '--drain-timeout', '600']
  const server = await serve(t, ...args, ...limits)
  const { url } = server

  t.test("the original server's YAML starts it, with one warning and a plugin", async (t) => {
    t.equal((await post(url, '/encode', { text: 'x'.repeat(2000) })).status, 200)
    t.equal((await post(url, '/encode', { text: 'x'.repeat(2100) })).status, 413)
    const short = { prompt: 'One day', max_tokens: 4 }
    const answer = await post(url, '/generate', short)
    t.match(await answer.json(), { success: true, data: { generated_tokens: 4 } })
    const scheduler = (await (await fetch(`${url}/admin/scheduler`)).json()) as {
      data: { policy: string; available: { name: string }[] }
    }
    t.equal(scheduler.data.policy, 'shortest-first')
    t.ok(scheduler.data.available.some(({ name }) => name === 'shortest-first'))
    for (const policy of ['static+sjf', 'shortest-first', 'adaptive+fcfs']) {
      const swapped = await fetch(`${url}/admin/scheduler`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ policy }),
      })
      t.match(await swapped.json(), { success: true, data: { policy, fallback: null } })
    }
    t.match(await (await post(url, '/generate', short)).json(), { success: true })
  })

  t.test('16 streams at once on 8 slots', async (t) => {
    const body = { prompt: 'Once upon a time', max_tokens: 40, temperature: 0 }
    const whole = (await (await post(url, '/generate', body)).json()) as {
      data: { text: string; generated_tokens: number }
    }
    const stream = async (): Promise<string> => {
      const response = await post(url, '/generate_stream', body)
      t.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
      return await response.text()
    }
    for (const events of await Promise.all(Array.from({ length: 16 }, stream))) {
      const parsed = events
        .trim()
        .split('\n\n')
        .map(
          (event) => JSON.parse(event.slice('data: '.length)) as { token: string; done: boolean },
        )
      t.equal(parsed.map(({ token }) => token).join(''), whole.data.text)
      t.match(parsed.at(-1), { done: true, generated_tokens: whole.data.generated_tokens })
    }
  })

  t.test('the policy is swapped in the middle of 8 streams', async (t) => {
    const put = async (body: unknown) => {
      const headers = { 'content-type': 'application/json' }
      const init = { method: 'PUT', headers, body: JSON.stringify(body) }
      return await fetch(`${url}/admin/scheduler`, init)
    }
    const body = { prompt: 'One day', max_tokens: 150, temperature: 0, ignore_eos: true }
    const texts = async (response: Promise<Response>) =>
      (await (await response).text()).replace(/"id":"[0-9a-f]{32}"/g, '')
    const alone = await texts(post(url, '/generate_stream', body))
    t.match(alone, /"done":true,"generated_tokens":150/)

    const streams = Array.from({ length: 8 }, () => texts(post(url, '/generate_stream', body)))
    const chunked = { policy: 'chunked+fcfs', options: { tokenBudget: 32 } }
    const swapped: unknown = await (await put(chunked)).json()
    t.match(swapped, { success: true, data: { ...chunked, fallback: null } })
    t.equal((await put({ policy: 'continuous+fcfs' })).status, 200)
    t.equal((await put({ policy: 'adaptive+fcfs' })).status, 200)
    t.equal(
      new Set([alone, ...(await Promise.all(streams))]).size,
      1,
      'nothing is lost or repeated',
    )

    const wrong = await put({ policy: 'chunkd+fcfs' })
    t.equal(wrong.status, 400)
    t.match(await wrong.json(), {
      code: 'invalid_policy',
      error: /did you mean "chunked\+fcfs"/,
      valid: { batchings: /chunked/, orders: /fcfs/, policies: [] },
    })
    const options = await put({ policy: 'chunked+fcfs', options: { tokenBudget: -1 } })
    t.equal(options.status, 400)
    t.match(await options.json(), { code: 'invalid_policy', valid: ['tokenBudget'] })
    t.match(await (await fetch(`${url}/admin/scheduler`)).json(), {
      data: { policy: 'adaptive+fcfs' },
    })
  })

  t.test('the other endpoints answer', async (t) => {
    const get = async (path: string): Promise<unknown> => (await fetch(`${url}${path}`)).json()
    t.match(await get('/'), { success: true, data: { name: 'cLLM Server' } })
    t.match(await get('/health?level=full'), { data: { healthy: true } })
    t.match(await get('/model/info'), { data: { vocab_size: 32000, num_layers: 6 } })
    const encoded = (await (await post(url, '/encode', { text: 'Lily played' })).json()) as {
      data: { tokens: number[]; length: number }
    }
    t.equal(encoded.data.length, encoded.data.tokens.length)
    const decoded = await (await post(url, '/decode', { tokens: encoded.data.tokens })).json()
    t.match(decoded, { data: { text: 'Lily played' } })
  })

  t.test('a port that is taken is said to be', async (t) => {
    const { port } = new URL(url)
    const open = ['--host', '0.0.0.0', '--allow-unauthenticated']
    const { code, stderr } = await inside(['serve', '--model', model, '--port', port, ...open])
    t.equal(code, 1)
    t.match(stderr, new RegExp(`${port}: another program listens`))
  })

  t.test('SIGTERM lets what runs finish', async (t) => {
    const body = { prompt: 'Once upon a time', max_tokens: 120, ignore_eos: true }
    const response = await post(url, '/generate_stream', body)
    await stop(t, server)
    t.match(await response.text(), /"done":true,"generated_tokens":120/)
    await t.rejects(fetch(`${url}/health`))
  })

  t.test('of what it cannot use of the YAML it warned once', async (t) => {
    const lines = (await server.errors).split('\n')
    t.ok(
      lines.some((line) => line.includes('0.0.0.0')),
      'open to everybody: it is warned',
    )
    const warnings = lines.filter((line) => line.includes('num_threads'))
    t.equal(warnings.length, 1)
    t.match(warnings[0], /num_threads.*quantization.*batch_timeout_ms/)
  })
})

t.test(
  'a rolling restart behind a proxy loses nothing, and a second signal ends at once',
  async (t) => {
    const args = [...quickModel, '--slots', '4', '--drain-timeout', '600']
    const first = await serve(t, ...args)
    const second = await serve(t, ...args)
    const upstreams = [first.url, second.url]
    let refused = 0
    /** As a load balancer does it: what one does not take, the next one gets. */
    const proxied = async (body: unknown): Promise<string> => {
      for (const upstream of upstreams) {
        const response = await post(upstream, '/generate_stream', body).catch(() => undefined)
        if (response?.status === 200) return await response.text()
        refused++
      }
      return 'lost'
    }
    const body = { prompt: 'Once upon a time', max_tokens: 40, temperature: 0, ignore_eos: true }
    let left = 24
    const isEnough = () => left <= 0 && refused > 0
    const client = async (): Promise<void> => {
      while (!isEnough()) {
        if (left-- === 16) first.child.kill('SIGTERM')
        t.match(await proxied(body), /"done":true,"generated_tokens":40/)
      }
    }
    const exited = once(first.child, 'exit')
    await Promise.all([1, 2, 3, 4, 5, 6].map(client))
    t.same(await exited, [0, null])
    t.ok(refused > 0, `${refused} requests went on to the next server`)

    const [engine = 0] = childrenOf(second.child)
    const long = await post(second.url, '/generate_stream', { ...body, max_tokens: 30_000 })
    process.kill(engine, 'SIGSTOP') // so that what runs does not finish
    second.child.kill('SIGTERM')
    await until(async () => (await fetch(`${second.url}/health/ready`)).status !== 200)
    second.child.kill('SIGTERM')
    t.same(await once(second.child, 'exit'), [143, null])
    await t.rejects(long.text())
    await gone(engine)
  },
)

t.test('what cannot start says why, all at once', async (t) => {
  const fail = async (...args: readonly string[]): Promise<string> => {
    const { code, stderr } = await inside(['serve', '--port', '0', ...args])
    t.not(code, 0)
    return stderr
  }
  const wrong = await fail('--prot', '9000', '--slots', 'many', '--policy', 'fastest')
  t.match(wrong, /--prot.*--port/)
  t.match(wrong, /--slots.*many/)
  t.match(wrong, /fastest/)
  t.match(await fail('--model', 'tinylama-1.1b-chat'), /tinyllama-1\.1b-chat/)
  t.match(await fail('--model', './missing.gguf'), /missing\.gguf/)
})
