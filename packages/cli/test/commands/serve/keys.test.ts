import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { inside } from '../../inside.js'
import { quickModel } from '../../plain-process.js'
import { serve, stop } from '../../serve-process.js'

t.test('keys in the real process: roles, limits, reload, the words of each protocol', async (t) => {
  const file = join(t.testdir(), 'keys.json')
  const keys = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout } = await inside(['keys', ...args, '--api-keys', file])
    t.equal(code, 0)
    return stdout.trim()
  }
  const ann = await keys('add', 'ann', '--requests-per-minute', '3')
  const root = await keys('add', 'root', '--role', 'admin', '--tokens-per-month', '1000000')
  const [, letters = ''] = /^--model=(.*)$/.exec(quickModel.at(-1)!) ?? []
  const models = ['--model', `a=${letters}`, '--model', `b=${letters}`, '--no-models-autoload']
  const withKeys = ['--slots', '1', '--api-keys', file]
  const server = await serve(t, ...quickModel.slice(0, -1), ...models, ...withKeys)
  const ask = async (path: string, key: string | undefined, body?: object, method = 'POST') => {
    const answer = await fetch(server.url + path, {
      method: body === undefined ? 'GET' : method,
      headers: {
        'content-type': 'application/json',
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
      body: body === undefined ? null : JSON.stringify(body),
    })
    const text = await answer.text()
    return { status: answer.status, headers: answer.headers, text }
  }

  await t.test('with --no-models-autoload a request loads no model', async (t) => {
    const post = async (path: string, more: object = {}) =>
      await ask(path, root, { model: 'a', ...more })
    const props = JSON.parse((await ask('/props', root)).text) as object
    t.match(props, { models_autoload: false, max_instances: 2 })
    const asking = { prompt: 'Once', max_tokens: 4 }
    t.match(await post('/v1/completions', asking), { status: 400, text: /a is not in memory/ })
    t.match(await post('/models/load'), { status: 200 })
    t.match(await post('/v1/completions', asking), { status: 200, text: /"text"/ })
  })

  t.equal((await ask('/health', undefined)).status, 200, 'load balancers need none')
  const shapes: readonly [path: string, body: object][] = [
    ['/generate', { success: false, code: 'unauthenticated' }],
    ['/v1/completions', { error: { type: 'authentication_error', code: 'invalid_api_key' } }],
    ['/api/generate', { error: /API key/ }],
    ['/completion', { error: { code: 401, type: 'authentication_error' } }],
  ]
  for (const [path, shape] of shapes) {
    for (const key of [undefined, 'wrong']) {
      const refused = await ask(path, key, { prompt: 'Once' })
      t.equal(refused.status, 401, path)
      t.match(JSON.parse(refused.text), shape)
    }
  }
  t.match(await inside(['ps', '--url', server.url]), {
    code: 1,
    stderr: /instead got none; --api-key KEY or CLLM_API_KEY sends one\n$/,
  })
  t.match(await ask('/metrics', ann), { status: 403, text: /"forbidden"/ })
  t.match(await ask('/metrics', root), { status: 200, text: /cllm_/ })

  const body = { prompt: 'Once', max_tokens: 1 }
  for (const remaining of ['2', '1', '0']) {
    const { status, headers } = await ask('/v1/completions', ann, body)
    t.equal(status, 200)
    t.equal(headers.get('x-ratelimit-limit-requests'), '3')
    t.equal(headers.get('x-ratelimit-remaining-requests'), remaining)
  }
  const limited = await ask('/v1/completions', ann, body)
  t.equal(limited.status, 429)
  t.match(limited.headers.get('retry-after'), /^\d+$/)
  t.match(JSON.parse(limited.text), { error: { code: 'rate_limit_exceeded' } })
  const more = await ask('/admin/keys/ann', root, { requests_per_minute: 6 }, 'PATCH')
  t.match(JSON.parse(more.text), { data: { name: 'ann', requests_per_minute: 6 } })
  const again = await ask('/v1/completions', ann, body)
  t.equal(again.status, 200, 'a limit takes force at once')
  t.equal(again.headers.get('x-ratelimit-remaining-requests'), '1', 'and what was used counts')

  const status = async (key: string) => (await ask('/v1/models', key)).status
  const becomes = async (key: string, wanted: number): Promise<void> => {
    while ((await status(key)) !== wanted) await delay(20)
  }
  const made = await ask('/admin/keys', root, { name: 'eve', tokens_per_minute: 5 })
  const { key: eve } = (JSON.parse(made.text) as { data: { key: string } }).data
  t.equal(await status(eve), 200, 'a key that the server made is valid at once')
  t.match(await keys('list'), /eve .* 5 /, 'and in the file')
  t.notOk(readFileSync(file, 'utf8').includes(eve), 'as its hash')
  t.match(await ask('/admin/keys', root, { name: 'eve' }), { status: 400, text: /"eve\\" already/ })
  const bob = await keys('add', 'bob')
  await becomes(bob, 200)
  await keys('revoke', 'ann')
  await becomes(ann, 401)
  t.equal(await status(root), 200, 'the others stay, without a restart')
  t.notMatch(await keys('list'), /ann/)
  await stop(t, server)
  const log = await server.errors
  t.match(log, /"keys":\["root"\],"msg":"keys are not held to .*--usage/)
  for (const key of [ann, bob, eve, root]) t.notOk(log.includes(key), 'no key in the log')
})
