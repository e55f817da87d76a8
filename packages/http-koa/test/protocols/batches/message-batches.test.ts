import { join } from 'node:path'
import {
  anthropicProtocol,
  type ApiKey,
  batchesProtocol,
  hashKey,
  keyRing,
  openAiProtocol,
} from '@cllm/http-koa'
import { drive } from '@cllm/testing'
import type { Test } from 'tap'
import { testEach } from '../../each-client.js'
import { type Served, serve, type ServeOptions } from '../../serve.js'

const params = (text: string, more: object = {}) => ({
  model: 'fake',
  max_tokens: 5,
  messages: [{ role: 'user', content: text }],
  ...more,
})

interface Shown {
  readonly id: string
  readonly processing_status: string
  readonly request_counts: Readonly<Record<string, number>>
  readonly results_url: string
  readonly error: { readonly type: string; readonly message: string }
  readonly data: readonly Shown[]
  readonly has_more: boolean
}

const path = '/v1/messages/batches'

async function batching(t: Test, folder: string, more: ServeOptions = {}) {
  const lines = [openAiProtocol(), anthropicProtocol()]
  const served = await serve({ protocols: [batchesProtocol({ folder }), ...lines], ...more })
  t.teardown(async () => await drive(served.clock, served.close()))
  return { ...served, ...calls(served) }
}

const calls = (served: Served, key = '') => {
  const init = { headers: { 'content-type': 'application/json', 'x-api-key': key } }
  const json = async (answer: Promise<Response>) => {
    const { status, ...found } = await answer.then(async (one) => {
      return { status: one.status, body: (await one.json()) as Shown }
    })
    return { status, ...found }
  }
  const see = async (more = '') => await json(served.get(`${path}${more}`, init))
  return {
    see,
    make: async (requests: unknown, more = '') =>
      await json(served.post(`${path}${more}`, { requests }, init)),
    ended: async (id: string) => {
      for (;;) {
        const { body } = await see(`/${id}`)
        if (body.processing_status === 'ended') return body
      }
    },
    remove: async (id: string) =>
      await json(fetch(`${served.url}${path}/${id}`, { method: 'DELETE', ...init })),
    results: async (url: string) =>
      (await (await served.get(url, init)).text())
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { custom_id: string; result: { type: string } }),
  }
}

testEach('a batch of messages answers each request, in lists of its own', async (t) => {
  const { make, ended, results, see, remove, get, post, clock } = await batching(
    t,
    join(t.testdir({}), 'batches'),
  )
  const { status, body: made } = await make([
    { custom_id: 'a', params: params('Hi', { temperature: 0 }) },
    { custom_id: 'b', params: params('Ho', { max_tokens: 'x' }) },
  ])
  t.equal(status, 200)
  t.match(made, {
    id: /^msgbatch_[0-9a-f]{32}$/,
    type: 'message_batch',
    processing_status: 'in_progress',
    request_counts: { processing: 2, succeeded: 0 },
    created_at: /^\d{4}-.*Z$/,
    ended_at: null,
    results_url: null,
  })
  const done = await ended(made.id)
  t.match(done, {
    request_counts: { processing: 0, succeeded: 1, errored: 1, canceled: 0, expired: 0 },
    ended_at: String,
    results_url: `${path}/${made.id}/results`,
  })
  const [right, wrong] = await results(done.results_url)
  const direct = (await (
    await post('/v1/messages', params('Hi', { temperature: 0 }))
  ).json()) as object
  t.match(right, {
    custom_id: 'a',
    result: {
      type: 'succeeded',
      message: { ...direct, id: /^msg_/, usage: { output_tokens: Number } },
    },
  })
  t.match(wrong, {
    custom_id: 'b',
    result: {
      type: 'errored',
      error: { type: 'error', error: { type: 'invalid_request_error', message: /max_tokens/ } },
    },
  })
  clock.advance(1000) // they are listed by the second
  const second = await make([{ custom_id: 'a', params: params('Hi') }])
  t.match((await see('?limit=1')).body, { has_more: true, first_id: second.body.id })
  t.match((await see(`?after_id=${second.body.id}`)).body, {
    has_more: false,
    data: [{ id: made.id }],
  })
  t.match((await see(`?before_id=${made.id}`)).body, { data: [{ id: second.body.id }] })
  t.match(await (await get('/v1/batches')).json(), { data: [] }, 'those of OpenAI are others')
  t.match(await remove(made.id), { body: { id: made.id, type: 'message_batch_deleted' } })
  const gone = await see(`/${made.id}`)
  t.equal(gone.status, 404)
  t.match(gone.body, { error: { message: made.id } }, 'by the id that was asked for')
  await ended(second.body.id)
  await remove(second.body.id)
  t.match(await (await get('/v1/files')).json(), { data: [] }, 'nothing is left')
})

testEach('a cancelled batch says what was not answered', async (t) => {
  const folder = join(t.testdir({}), 'batches')
  const { make, ended, results, see, remove, get, url } = await batching(t, folder, {
    backend: { contextSize: 4096, stepMs: () => 1 },
  })
  const long = { custom_id: 'long', params: params('Hi', { max_tokens: 4000 }) }
  const { body: made } = await make([long])
  t.match((await see(`/${made.id}/results`)).body, { error: { type: 'not_found_error' } })
  t.match((await remove(made.id)).body, { error: { message: /cancel it first/ } })
  await make(undefined, `/${made.id}/cancel`)
  const done = await ended(made.id)
  t.match(done, { request_counts: { canceled: 1 }, cancel_initiated_at: String })
  t.same(await results(done.results_url), [{ custom_id: 'long', result: { type: 'canceled' } }])
  const [asked] = ((await (await get('/v1/files')).json()) as Shown).data
  await fetch(`${url}/v1/files/${asked!.id}`, { method: 'DELETE' })
  const error = { type: 'not_found_error', message: new RegExp(asked!.id) }
  t.match(await see(`/${made.id}/results`), { status: 404, body: { error } })
})

testEach('what is wrong with a batch of messages is said, and tenants are apart', async (t) => {
  const key = (name: string): ApiKey => ({ name, tenant: name, role: 'user', hash: hashKey(name) })
  const served = await batching(t, join(t.testdir({}), 'batches'), {
    transport: { security: { keys: keyRing(() => [key('ann'), key('bob')]) } },
  })
  const ann = calls(served, 'ann')
  const one = { custom_id: 'a', params: params('Hi') }
  for (const [requests, message] of [
    [undefined, /required field: requests/],
    [[], /at least one request/],
    [[{ ...one, custom_id: 'a b' }], /requests\.0\.custom_id/],
    [[one, one], /requests\.1\.custom_id: "a" is that of an earlier/],
    [[{ ...one, params: params('Hi', { stream: true }) }], /requests\.0\.params\.stream/],
  ] as const) {
    const { status, body } = await ann.make(requests)
    t.equal(status, 400)
    t.match(body, { type: 'error', error: { type: 'invalid_request_error', message } })
  }
  const { body: made } = await ann.make([one])
  await ann.ended(made.id)
  const bob = calls(served, 'bob')
  t.match(await bob.see(`/${made.id}`), { status: 404, body: { type: 'error' } })
  t.match(await bob.see(`/${made.id}/results`), { status: 404 })
  t.match(await bob.remove(made.id), { status: 404 })
  t.match((await bob.see()).body, { data: [] })
  t.match((await bob.see(`?after_id=${made.id}`)).body, { error: { type: String } })
})
