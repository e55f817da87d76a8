import * as exported from '@cllm/http-koa'
import { PluginRegistry } from '@cllm/core'
import { type BoundRoute, type KoaProtocol, RouteTable } from '@cllm/http-koa'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { text as textOf } from 'node:stream/consumers'
import type { Test } from 'tap'
import { runAll, serve, type Served, until } from './serve.js'

const registry = new PluginRegistry()
for (const protocol of exported.builtInProtocols) registry.registerProtocol(protocol)

/** One of each protocol that this package has. */
export const everyProtocol: readonly KoaProtocol[] = exported.createKoaProtocols(registry, {
  services: new exported.Services()
    .set(exported.LOG_LEVEL, { level: 'info' })
    .set(exported.MODEL_STORE, {
      pull: async () => {},
      remove: async () => {},
      memory: async () => ({ weights: 1, total: 2, available: 3 }),
      catalog: async () => ({
        available: 3,
        models: [{ name: 'fake', title: 'A fake', bytes: 1, present: false, total: 2 }],
      }),
    })
    .set(exported.KEY_STORE, {
      list: async () => [],
      add: async () => 'a secret',
      limit: async (name) => ({ name, tenant: name, role: 'user', hash: '' }),
      remove: async () => {},
    }),
})

/** What the protocols say that they serve; where two claim a path, the first one has it. */
export const everyRoute: readonly BoundRoute[] = everyProtocol
  .flatMap(({ routes = [] }) => routes)
  .filter(({ isHidden }) => isHidden !== true)
  .filter(
    ({ method, path }, index, all) =>
      all.findIndex((other) => other.method === method && other.path === path) === index,
  )

const table = new RouteTable(everyProtocol)

/** The address of a route: parameters stand for something. */
export const addressOf = ({ path }: Pick<BoundRoute, 'path'>): string =>
  path.replace(/[:*]\w+/g, 'fake')

/** The query of a route that needs one. */
export const validQueries: Readonly<Record<string, string>> = { '/models/memory': '?model=fake' }

const messages = [{ role: 'user', content: 'a' }]
const pair = { query: 'a', documents: ['b'] }
const ollama = { model: 'fake', options: { num_predict: 1 } }

/** A small body for every route that takes one; its prompts are the letter a. */
export const validBodies: Readonly<Record<string, object>> = {
  '/generate': { prompt: 'a', max_tokens: 1 },
  '/generate_stream': { prompt: 'a', max_tokens: 1 },
  '/encode': { text: 'a' },
  '/decode': { tokens: [65] },
  '/benchmark': { prompt: 'a', requests: 2, max_tokens: 1 },
  '/v1/chat/completions': { messages, max_tokens: 1 },
  '/v1/completions': { prompt: 'a', max_tokens: 1 },
  '/v1/fim/completions': { prompt: 'a', suffix: 'b', max_tokens: 1 },
  '/v1/responses': { input: 'a', max_output_tokens: 1 },
  '/chat/completions': { messages, max_tokens: 1 },
  '/chat/completions/input_tokens': { messages },
  '/v1/chat/completions/input_tokens': { messages },
  '/responses': { input: 'a', max_output_tokens: 1 },
  '/responses/input_tokens': { input: 'a' },
  '/v1/responses/input_tokens': { input: 'a' },
  '/v1/rerank': pair,
  '/rerank': pair,
  '/v2/rerank': pair,
  '/v1/reranking': pair,
  '/reranking': pair,
  '/v1/score': { text_1: 'a', text_2: 'b' },
  '/score': { text_1: 'a', text_2: 'b' },
  '/api/create': { model: 'made', from: 'fake', stream: false },
  '/api/copy': { source: 'fake', destination: 'copied' },
  '/v1/messages': { messages, max_tokens: 1 },
  '/v1/messages/count_tokens': { messages },
  '/v1/embeddings': { model: 'fake', input: 'a' },
  '/api/show': { model: 'fake' },
  '/api/generate': { ...ollama, prompt: 'a' },
  '/api/chat': { ...ollama, messages },
  '/api/embed': { model: 'fake', input: 'a' },
  '/api/embeddings': { model: 'fake', prompt: 'a' },
  '/api/pull': { model: 'fake', stream: false },
  '/api/delete': { model: 'fake' },
  '/api/push': { model: 'fake' },
  '/v1/streams/lookup': { conversation_ids: ['a'] },
  '/models/load': { model: 'fake' },
  '/models/unload': { model: 'fake' },
  '/v1/load_lora_adapter': { lora_name: 'a', lora_path: 'a.gguf', load_inplace: true },
  '/v1/unload_lora_adapter': { lora_name: 'a' },
  '/completion': { prompt: 'a', n_predict: 1 },
  '/completions': { prompt: 'a', n_predict: 1 },
  '/infill': { input_prefix: 'a', input_suffix: 'b', n_predict: 1 },
  '/tokenize': { content: 'a' },
  '/detokenize': { tokens: [65] },
  '/apply-template': { messages },
  '/embedding': { content: 'a' },
  '/embeddings': { content: 'a' },
  '/admin/cache': { prompt: 'a', pin: false },
  '/admin/scheduler': { policy: 'run-all' },
  '/admin/log-level': { level: 'info' },
  '/admin/keys': { name: 'a' },
  '/admin/keys/:name': { tokens_per_minute: 5 },
}

const shapes: Readonly<Record<string, object>> = {
  error: { success: false, error: /./, code: /^[a-z_]+$/ },
  'anthropic-error': { type: 'error', error: { type: /./, message: /./ } },
  'openai-error': { error: { message: /./, type: /./, code: /^[a-z_]+$/ } },
  'ollama-error': { error: /./ },
  'llama-server-error': { error: { code: Number, message: /./, type: /_error$/ } },
}

/** What a failure at this path looks like. */
export function errorShape(path: string): object {
  return shapes[table.match('GET', path).errors.name]!
}

/** What its failures are said to look like. */
export const errorSchema = (path: string) =>
  table.match('GET', path).errors.schema ?? exported.nativeErrors.schema

/** The routes that take a body, but for one whose body is valid once only. */
export const takeBodies = everyRoute.filter(
  ({ body, path }) => body !== undefined && path !== '/v1/unload_lora_adapter',
)

/** Whether another route before it takes the same body: its fields are checked there. */
export const isRepeated = ({ body, path }: BoundRoute): boolean =>
  takeBodies.find((other) => other.body === body)?.path !== path

/** A server of all of them. */
export async function serveEverything(transport: Partial<exported.KoaTransportOptions> = {}) {
  const registry = new PluginRegistry()
  registry.registerPolicy({ name: 'run-all', doc: 'Runs all.', create: () => runAll })
  return await serve({
    protocols: everyProtocol,
    registry,
    backend: {
      contextSize: 64,
      embeddingSize: 2,
      canInfill: true,
      adapters: true,
      details: { pooling: 'rank' },
    },
    transport,
  })
}

/** Connections stay open, and there are no web streams: a test sends thousands of bodies. */
const agent = new Agent({ keepAlive: true })

interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | number>>
  readonly body?: string | Buffer | null
}

/** Asks for a URL, for a tenth of what `fetch` computes. */
export async function ask(url: string, { method = 'GET', headers = {}, body }: Asked = {}) {
  const asking = request(url, { agent, method, headers })
  asking.end(body ?? undefined)
  const [answer] = (await once(asking, 'response')) as [IncomingMessage]
  return { status: answer.statusCode ?? 0, headers: answer.headers, text: await textOf(answer) }
}

/** Sends a body to a route. */
export async function send(
  server: Served,
  route: BoundRoute,
  body: string | Buffer | null,
  type = 'application/json',
  headers: Readonly<Record<string, string>> = {},
) {
  const method = route.method.toUpperCase()
  const length = body === null ? {} : { 'content-length': Buffer.byteLength(body) }
  const all = { 'content-type': type, ...length, ...headers }
  const { status, text } = await ask(server.url + addressOf(route), { method, headers: all, body })
  return { status, text, body: status === 200 ? {} : (JSON.parse(text) as object) }
}

/** Nothing is left behind, nothing looks like a crash, and the server goes on. */
export async function checkUnharmed(t: Test, server: Served): Promise<void> {
  await until(async () => (await server.client.statistics()).running === 0)
  const { running, waiting, slots } = await server.client.statistics()
  t.same([running, waiting], [0, 0])
  t.ok(slots.every(({ state }) => state === 'idle'))
  t.same(
    server.log.filter(({ level }) => level === 'error'),
    [],
    'nothing looks like a crash',
  )
  t.same(server.backend.violations, [])
  for (const route of takeBodies) {
    if (isRepeated(route)) continue
    const { status, text } = await send(server, route, JSON.stringify(validBodies[route.path]))
    t.equal(status, 200, `${route.path} still works: ${text}`)
  }
}
