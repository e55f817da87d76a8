import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** The server's behavior. */
export interface Script {
  /** Milliseconds before the first token. */
  readonly firstMs?: number
  /** Milliseconds before each of the others. */
  readonly gapMs?: number
  /** Holds all answers until this many requests have arrived. */
  readonly untilReceived?: number
  /** Added to the token count that the server reports. */
  readonly countError?: number
  /** Closes the connection after this many tokens. */
  readonly breakAfter?: number
  /** Sends an error in the stream after this many tokens. */
  readonly errorAfter?: number
  /** Answers with this status instead. */
  readonly status?: number
  /** Writes pieces of a tool's call in place of text, as OpenAI's chats do. */
  readonly asCalls?: boolean
  /** The deltas that a chat begins with, in place of texts. */
  readonly deltas?: readonly object[]
  /** Serves requests two by two, writing each event to both at once. */
  readonly pair?: boolean
  /** Answers with status 500 after this many requests. */
  readonly failAfter?: number
  /** Resets a connection that is used again, and calls this. */
  readonly onReused?: () => void
  /** Stops listening after this many requests. */
  readonly dieAfter?: number
}

/** A request as received. */
export interface Received {
  readonly path: string
  readonly body: Record<string, unknown>
  readonly prompt: string
  /** Undefined: none. */
  readonly tenant: unknown
  readonly session: unknown
}

/** A small server that speaks every API, on a real socket. */
export async function scriptedServer(script: Script = {}) {
  const received: Received[] = []
  const used = new WeakSet<object>()
  let allCame: () => void
  const all = new Promise<void>((resolve) => (allCame = resolve))
  if (script.untilReceived === undefined) allCame!()
  const server = createServer((request, response) => {
    void answer(request, response).catch(() => response.destroy())
  })
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? ''
    if (path === '/v1/models') return response.end('{"data":[{"id":"tiny"}]}')
    if (path === '/api/tags') return response.end('{"models":[{"name":"tiny:1"}]}')
    if (path === '/health') return response.end('{}')
    const dialect = dialects[path]
    if (dialect === undefined) return response.writeHead(404).end('{"error":"no such path"}')
    let text = ''
    for await (const chunk of request) text += String(chunk)
    const body = JSON.parse(text) as Record<string, unknown>
    const prompt = dialect.promptOf(body)
    const { 'x-cllm-tenant': tenant, 'x-session-id': session } = request.headers
    received.push({ path, body, prompt, tenant, session })
    if (received.length >= (script.untilReceived ?? 0)) allCame()
    await all
    const { socket } = request
    if (script.onReused !== undefined && used.has(socket)) {
      script.onReused()
      return socket.resetAndDestroy()
    }
    used.add(socket)
    if (received.length > (script.dieAfter ?? Infinity)) {
      server.close()
      server.closeAllConnections()
      return
    }
    const isFailing = received.length > (script.failAfter ?? Infinity)
    const status = isFailing ? 500 : script.status
    if (status !== undefined) {
      return response.writeHead(status).end('{"error":{"message":"scripted"}}')
    }
    response.writeHead(200, { 'content-type': dialect.type })
    const group = script.pair === true ? pairUp(response) : [response]
    if (group === undefined) return
    const isLines = dialect.type === 'application/x-ndjson'
    const write = (text: string) => group.forEach((each) => each.write(text))
    const frame = (event: unknown) =>
      write(isLines ? `${JSON.stringify(event)}\n` : `data: ${JSON.stringify(event)}\n\n`)
    if (dialect.opening !== undefined) frame(dialect.opening)
    const count = dialect.countOf(body)
    for (let index = 0; index < count && !response.destroyed; index++) {
      if (index === script.breakAfter) return response.destroy()
      if (index === script.errorAfter) {
        frame({ error: 'scripted failure', done: true })
        return response.end()
      }
      const pause = index === 0 ? script.firstMs : script.gapMs
      if (pause !== undefined && pause > 0) await sleep(pause)
      const delta = script.deltas?.[index]
      if (delta !== undefined) frame({ choices: [{ index: 0, delta }] })
      else frame(script.asCalls === true ? callPiece : dialect.token(` w${index}`))
    }
    const usage = { prompt: prompt.split(' ').length, count: count + (script.countError ?? 0) }
    for (const event of dialect.ending(usage)) frame(event)
    if (!isLines) write('data: [DONE]\n\n')
    for (const each of group) each.end()
  }
  let partner: ServerResponse | undefined
  const pairUp = (response: ServerResponse) => {
    const group = partner === undefined ? undefined : [partner, response]
    partner = partner === undefined ? response : undefined
    return group
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const close = () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  }
  return {
    url,
    received,
    /** Ends the server and its connections. */
    close,
  }
}

const callPiece = { choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: {} }] } }] }

interface Dialect {
  readonly type: string
  readonly promptOf: (body: Record<string, unknown>) => string
  readonly countOf: (body: Record<string, unknown>) => number
  readonly opening?: unknown
  readonly token: (text: string) => unknown
  readonly ending: (usage: { prompt: number; count: number }) => unknown[]
}

const openaiUsage = ({ prompt, count }: { prompt: number; count: number }) => ({
  choices: [],
  usage: {
    prompt_tokens: prompt,
    completion_tokens: count,
    prompt_tokens_details: { cached_tokens: 1 },
  },
})

const dialects: Readonly<Record<string, Dialect>> = {
  '/generate_stream': {
    type: 'text/event-stream',
    promptOf: (body) => String(body.prompt),
    countOf: (body) => Number(body.max_tokens),
    token: (token) => ({ id: 'x', token, done: false }),
    ending: ({ prompt, count }) => [
      {
        id: 'x',
        token: '',
        done: true,
        generated_tokens: count,
        timings: { prompt_tokens: prompt, cached_tokens: 1 },
      },
    ],
  },
  '/v1/completions': {
    type: 'text/event-stream',
    promptOf: (body) => String(body.prompt),
    countOf: (body) => Number(body.max_tokens),
    token: (text) => ({ choices: [{ index: 0, text }] }),
    ending: (usage) => [{ choices: [{ text: '', finish_reason: 'length' }] }, openaiUsage(usage)],
  },
  '/v1/chat/completions': {
    type: 'text/event-stream',
    promptOf: (body) => (body.messages as { content: string }[])[0]!.content,
    countOf: (body) => Number(body.max_tokens),
    opening: { choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] },
    token: (content) => ({ choices: [{ index: 0, delta: { content } }] }),
    ending: (usage) => [{ choices: [{ delta: {}, finish_reason: 'length' }] }, openaiUsage(usage)],
  },
  '/api/generate': {
    type: 'application/x-ndjson',
    promptOf: (body) => String(body.prompt),
    countOf: (body) => (body.options as { num_predict: number }).num_predict,
    token: (response) => ({ model: 'tiny:1', response, done: false }),
    ending: ({ prompt, count }) => [
      {
        response: '',
        done: true,
        context: [1, 2, 3],
        prompt_eval_count: prompt,
        eval_count: count,
      },
    ],
  },
  '/completion': {
    type: 'text/event-stream',
    promptOf: (body) => String(body.prompt),
    countOf: (body) => Number(body.n_predict),
    token: (content) => ({ content, tokens: [5], stop: false }),
    ending: ({ prompt, count }) => [
      {
        content: '',
        tokens: [],
        stop: true,
        tokens_evaluated: prompt,
        tokens_predicted: count,
        timings: { cache_n: 1 },
      },
    ],
  },
}
