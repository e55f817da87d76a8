import { type IncomingMessage, request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { defined } from '@cllm/core'
import type { Ask } from '../apis/apis.js'
import type { Outcome, RequestFailure, RunRecord } from '../metrics/run-record.js'
import { Answer } from './answer.js'
import { type Target, urlOf } from './load-options.js'

/** Options for sending a request and reading its answer. */
export interface SendOptions {
  /** The run's clock, in milliseconds. */
  readonly now: () => number
  /** Ends the request as `interrupted`. */
  readonly signal: AbortSignal
  /** Milliseconds after sending until the request fails with `timeout`. */
  readonly timeoutMs: number
  /** The client disconnects after this many chunks. */
  readonly cancelAfter?: number
  /** Milliseconds that the reader pauses after each chunk. */
  readonly slowReadMs?: number
}

type Ending = Pick<RunRecord, 'outcome' | 'failure'>

/** The outcome of a request. */
export interface SendResult extends Ending, Pick<RunRecord, 'sentMs' | 'endMs'> {
  readonly answer: Answer
}

/** Sends one request and reads its stream to the end. Never rejects: it returns failures. */
export async function sendRequest(target: Target, ask: Ask, options: SendOptions) {
  const sentMs = options.now()
  for (;;) {
    const result = await sendOnce(target, ask, options)
    // A server may close a kept-alive connection just as the client reuses it. This is no failure
    // of the server: a new connection is used, and the time that is lost counts.
    if (result !== 'stale') return { sentMs, ...result }
  }
}

type Sent = Omit<SendResult, 'sentMs'>

function sendOnce(target: Target, ask: Ask, options: SendOptions): Promise<Sent | 'stale'> {
  const { now, signal, timeoutMs, cancelAfter = Infinity, slowReadMs = 0 } = options
  const { api, headers, extraBody, agent } = target
  const body = JSON.stringify({ ...api.body(ask), ...extraBody })
  const answer = new Answer(api, now)
  return new Promise((resolve) => {
    let settled = false
    const settle = (result: 'stale' | Ending) => {
      if (settled) return
      settled = true
      clearTimeout(timer)
      signal.removeEventListener('abort', interrupt)
      resolve(result === 'stale' ? result : { endMs: now(), answer, ...result })
    }
    const leave = (outcome: Outcome, failure?: RequestFailure) => {
      settle({ outcome, ...defined({ failure }) })
      request.destroy()
    }
    const interrupt = () => leave('interrupted')
    const fail = (kind: string, message: string) => leave('failed', { kind, message })

    const send = target.url.protocol === 'https:' ? httpsRequest : httpRequest
    const all = {
      'content-type': 'application/json',
      ...headers,
      ...(ask.tenant === '' ? {} : { 'x-cllm-tenant': ask.tenant }),
      ...(ask.session !== undefined && { 'x-session-id': ask.session }),
      'content-length': Buffer.byteLength(body),
    }
    const request = send(urlOf(target, api.path), { method: 'POST', headers: all, agent })
    request.on('response', (response) => {
      response.setEncoding('utf8')
      if (response.statusCode !== 200) {
        readFailure(response, (message) => fail(`http_${response.statusCode}`, message))
        return
      }
      response.on('data', (text: string) => {
        answer.feed(text)
        if (answer.failure !== undefined) leave('failed', answer.failure)
        else if (answer.arrivalsMs.length >= cancelAfter && !answer.ended) leave('cancelled')
        else if (slowReadMs > 0) rest(response, slowReadMs)
      })
      response.on('end', () => settle(ending(answer, response)))
      response.on('error', (error) => fail('disconnected', error.message))
    })
    const timer = setTimeout(() => fail('timeout', `no end after ${timeoutMs} ms`), timeoutMs)
    signal.addEventListener('abort', interrupt)
    request.on('error', (error: NodeJS.ErrnoException) => {
      const wasReset = error.code === 'ECONNRESET' || error.code === 'EPIPE'
      if (request.reusedSocket && wasReset) settle('stale')
      else fail('connection', error.message || (error.code ?? 'cannot connect'))
    })
    request.end(body)
    if (signal.aborted) interrupt()
  })
}

function ending(answer: Answer, response: IncomingMessage): Ending {
  const failed = (kind: string, message: string) =>
    ({ outcome: 'failed', failure: { kind, message } }) as const
  const type = response.headers['content-type'] ?? 'no content type'
  if (answer.ended) {
    return answer.arrivedTokens > 0 ? { outcome: 'ok' } : failed('empty', 'no token arrived')
  }
  if (answer.arrivedTokens === 0) return failed('protocol', `no events: the answer is ${type}`)
  return failed('disconnected', 'the stream ended without its last event')
}

/** Reads the body of a refusal, at most 2,000 characters. */
function readFailure(response: IncomingMessage, onMessage: (message: string) => void): void {
  let text = ''
  response.on('data', (chunk: string) => (text = (text + chunk).slice(0, 2000)))
  const end = () => onMessage(text.trim() === '' ? 'no explanation' : text.trim())
  response.on('end', end)
  response.on('error', end)
}

function rest(response: IncomingMessage, milliseconds: number): void {
  response.pause()
  setTimeout(() => response.resume(), milliseconds)
}
