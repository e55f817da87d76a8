import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { McpServer, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server'
import { MCP_SERVERS, openAiProtocol, Services } from '@cllm/http-koa'
import t, { type Test } from 'tap'
import { mcp } from '../../../src/protocols/mcp/mcp-protocol.js'
import { McpServers } from '../../../src/protocols/mcp/mcp-servers.js'
import { serve, until } from '../../serve.js'

const entry = fileURLToPath(new URL('tool-server.mjs', import.meta.url))
const weather = { command: process.execPath, args: [entry], env: { SCALE: 'Celsius' } }

t.test('tools of a server that is started over stdio', async (t) => {
  const servers = new McpServers({ weather })
  t.teardown(async () => await servers.close())
  const tools = await servers.tools('weather')
  t.same(
    tools.map(({ name }) => name),
    ['weather__forecast', 'weather__secrets', 'weather__end'],
  )
  t.match(tools[0], {
    server: 'weather',
    description: 'The weather of a city',
    parameters: { type: 'object', properties: { city: { enum: ['Rome', 'Oslo'] } } },
  })
  const { signal } = new AbortController()
  const forecast = async (city: string) => await servers.call('weather__forecast', { city }, signal)
  t.same(await forecast('Rome'), { content: 'Rome: sunny, Celsius', isError: false })
  const wrong = await forecast('Paris').catch((error: unknown) => error)
  t.match(wrong, { isError: true }, 'wrong arguments are told to the model')
  process.env['CLLM_API_KEY'] ??= 'a secret of the server'
  const { content } = await servers.call('weather__secrets', {}, signal)
  t.notMatch(content, /CLLM/, 'it gets the environment that it is given')
  await t.rejects(servers.call('weather__end', {}, signal), { code: 'backend_failed' })
  t.match(await forecast('Oslo'), { content: /^Oslo/ }, 'it is started again')
  await t.rejects(servers.tools('other'), { code: 'not_found', message: /there is weather/ })
  await t.rejects(servers.call('__proto__', {}, signal), { code: 'not_found' })
})

t.test('one that never answers does not keep the others from being closed', async (t) => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close().closeAllConnections())
  const urlOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const begun = join(t.testdir({}), 'begun')
  const args = ['-e', 'fs.writeFileSync(process.argv[1], "1"); setInterval(() => {}, 1e6)', begun]
  let isGreeted = false
  const greet = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { id } = JSON.parse(await text(request)) as { id?: number }
    if (id === undefined) isGreeted = true
    const serverInfo = { name: 'greeting', version: '1' }
    const result = { protocolVersion: '2025-06-18', capabilities: {}, serverInfo }
    response.setHeader('Content-Type', 'application/json')
    if (id !== undefined) response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  }
  const greeting = createServer((request, response) => void greet(request, response))
  greeting.listen(0, '127.0.0.1')
  await once(greeting, 'listening')
  t.teardown(() => greeting.close().closeAllConnections())
  const servers = new McpServers({
    program: { command: process.execPath, args },
    far: { url: urlOf(silent) },
    greeting: { url: urlOf(greeting) },
  })
  const asked = Promise.allSettled(servers.names.map(async (name) => await servers.tools(name)))
  await once(silent, 'request')
  await until(() => existsSync(begun) && isGreeted)
  await servers.close()
  for (const { status } of await asked) t.equal(status, 'rejected')
})

/** A server over HTTP with one tool, which can be started again at its address. */
async function overHttp(t: Test) {
  const sessions: string[] = []
  const start = async () => {
    const server = new McpServer({ name: 'clock', version: '1' })
    server.registerTool('now', {}, () => ({ content: [{ type: 'text', text: 'noon' }] }))
    const sessionIdGenerator = () => {
      sessions.push(randomUUID())
      return sessions.at(-1)!
    }
    const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator })
    await server.connect(transport)
    return transport
  }
  let transport = await start()
  const answer = async (req: IncomingMessage, res: ServerResponse) => {
    const { method = '', headers } = req
    const body = method === 'POST' ? { body: await text(req) } : {}
    const shown = headers as Record<string, string>
    const request = new Request('http://127.0.0.1/', { method, headers: shown, ...body })
    const response = await transport.handleRequest(request)
    res.writeHead(response.status, Object.fromEntries(response.headers))
    if (response.body === null) res.end()
    else Readable.fromWeb(response.body).pipe(res)
  }
  const server = createServer((req, res) => void answer(req, res)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close().closeAllConnections())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return { url, sessions, restart: async () => void (transport = await start()) }
}

t.test('a server over HTTP that was started again is connected to anew', async (t) => {
  const { url, sessions, restart } = await overHttp(t)
  const servers = new McpServers({ clock: { url } })
  t.teardown(async () => await servers.close())
  const now = async () => await servers.call('clock__now', {}, new AbortController().signal)
  t.match(await now(), { content: 'noon' })
  await now()
  t.equal(sessions.length, 1, 'calls share a session')
  await restart()
  await t.rejects(now(), { code: 'backend_failed' }, 'the first finds that its session is gone')
  t.match(await now(), { content: 'noon' })
  t.match(await Promise.all([now(), now()]), [{ content: 'noon' }, { content: 'noon' }])
  t.equal(sessions.length, 2)
  await servers.close()
  await t.rejects(now(), { code: 'shutting_down' })
  t.equal(sessions.length, 2, 'nothing is connected to after the end')
})

/** A server over HTTP that answers each method with this, or with the error of JSON-RPC that `fails` names. */
async function raw(t: Test, answers: Readonly<Record<string, (name: string) => object>>) {
  const serverInfo = { name: 'raw', version: '1' }
  const first = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo }
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const asked = request.method === 'POST' ? await text(request) : '{}'
    const {
      id,
      method = '',
      params,
    } = JSON.parse(asked) as {
      id?: number
      method?: string
      params?: { name?: string }
    }
    if (id === undefined)
      return void response.writeHead(request.method === 'POST' ? 202 : 405).end()
    const missing = () => ({ error: { code: -32_601, message: 'there is no such method' } })
    const known = method === 'initialize' ? () => ({ result: first }) : answers[method]
    const said = { jsonrpc: '2.0', id, ...(known ?? missing)(params?.name ?? '') }
    const isStream = params?.name === 'streamed'
    response.setHeader('Content-Type', isStream ? 'text/event-stream' : 'application/json')
    response.end(isStream ? `id: 1\ndata: ${JSON.stringify(said)}\n\n` : JSON.stringify(said))
  }
  const server = createServer((request, response) => void answer(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close().closeAllConnections())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

t.test('what a server says holds nothing up', async (t) => {
  // A pattern that takes seconds for this text, and twice as long for each further letter.
  const word = { type: 'string', pattern: '^(a+)+$' }
  const outputSchema = { type: 'object', properties: { word } }
  const inputSchema = { type: 'object' }
  const structuredContent = { word: `${'a'.repeat(24)}!` }
  const call = (name: string): object => {
    if (name === 'fails') return { error: { code: -32_000, message: 'x'.repeat(1e6) } }
    const isLong = name === 'long' || name === 'streamed'
    const content = isLong ? [{ type: 'text', text: 'x'.repeat(11 * 2 ** 20) }] : []
    return { result: { content, structuredContent } }
  }
  const list = () => ({ result: { tools: [{ name: 'slow', inputSchema, outputSchema }] } })
  const servers = new McpServers({ raw: await raw(t, { 'tools/list': list, 'tools/call': call }) })
  t.teardown(async () => await servers.close())
  const { signal } = new AbortController()
  t.equal((await servers.tools('raw')).length, 1)
  const { content } = await servers.call('raw__slow', {}, signal)
  t.same(JSON.parse(content), structuredContent, 'its own schema is not tried on it')
  const long = servers.call('raw__long', {}, signal)
  await t.rejects(long, { code: 'backend_failed', message: /more than 10485760 bytes/ })
  await t.rejects(servers.call('raw__streamed', {}, signal), { code: 'backend_failed' })
  const failed = await servers.call('raw__fails', {}, signal).catch((error: unknown) => error)
  t.match(failed, { code: 'backend_failed', message: /^The MCP server raw failed: .{0,1000}$/ })
  t.same(JSON.parse((await servers.call('raw__slow', {}, signal)).content), structuredContent)
})

t.test('the routes: only with servers in the configuration', async (t) => {
  t.same(mcp.create({ servers: {} }, new Services()).routes, undefined)
  const missing = { command: 'no-such-program' }
  const options = mcp.options!.parse({ servers: { weather, missing } })
  t.throws(() => mcp.options!.parse({ servers: { weather: { run: 'x' } } }), /command, args/)
  t.throws(() => mcp.options!.parse({ servers: { a__b: weather } }), /letters, digits/)
  const services = new Services()
  const { get, post, close } = await serve({ protocols: [mcp.create(options, services)] })
  t.teardown(async () => {
    await Promise.all([close(), services.get(MCP_SERVERS)?.close()])
  })
  const { data, problems } = (await (await get('/mcp/tools')).json()) as {
    data: object[]
    problems: string[]
  }
  t.equal(data.length, 3)
  t.match(problems, [/^The MCP server missing failed: .*no-such-program/])
  const called = await post('/mcp/call', { name: 'weather__forecast', arguments: { city: 'Oslo' } })
  t.same(await called.json(), { content: 'Oslo: sunny, Celsius', is_error: false })
  const unknown = await post('/mcp/call', { name: 'weather__other', arguments: {} })
  t.ok(unknown.status >= 400 && unknown.status < 500, `${unknown.status}`)
})

t.test('a server that does not answer holds up the tools of no other', async (t) => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close().closeAllConnections())
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`
  const services = new Services()
  const protocols = [mcp.create({ servers: { weather, silent: { url } } }, services)]
  const { get, close, clock } = await serve({ protocols })
  const servers = services.get(MCP_SERVERS)!
  t.teardown(async () => {
    await Promise.all([close(), servers.close()])
  })
  const listed = get('/mcp/tools')
  await once(silent, 'request')
  // Answered behind the question that the route has asked it.
  await servers.tools('weather')
  clock.advance(10_000)
  t.match(await (await listed).json(), {
    data: [{ server: 'weather' }, {}, {}],
    problems: ['The MCP server silent has not answered for 10 s'],
  })
})

t.test('Responses name a configured server, and cannot bring one', async (t) => {
  const servers = new McpServers({ weather })
  const { post, close } = await serve({ protocols: [openAiProtocol({ mcp: servers })] })
  t.teardown(async () => {
    await Promise.all([close(), servers.close()])
  })
  const ask = async (...tools: readonly object[]) =>
    (await (await post('/v1/responses/input_tokens', { input: 'Hi', tools })).json()) as {
      input_tokens: number
      error?: { message: string }
    }
  const label = { type: 'mcp', server_label: 'weather' }
  const [none, one, all] = [
    await ask(),
    await ask({ ...label, allowed_tools: ['forecast'] }),
    await ask(label),
  ]
  t.ok(none.input_tokens < one.input_tokens && one.input_tokens < all.input_tokens)
  for (const wrong of [
    { ...label, server_label: 'other' },
    { ...label, server_url: 'http://127.0.0.1:1/mcp' },
  ]) {
    t.match(await ask(wrong), {
      error: { message: /tools\.0: .*one of weather, and no server_url/ },
    })
  }
  const name = `${'a'.repeat(24)}__${'b'.repeat(128)}`
  t.match(await ask({ type: 'function', name }), { input_tokens: Number }, 'the longest of MCP')
})
