import { Agent, request } from 'node:http'
import { pause } from './servers.mjs'

const agent = new Agent({ keepAlive: true, maxSockets: Infinity })

/**
 * Asks llama-server's `POST /completion` for a greedy answer and says how it ended: its status, its
 * tokens, its text, the counts that the server told, and whether its last event came. `leaveAfter`
 * tokens the client goes (before any with 0, before the answer's head with -1); `restMs` it rests
 * after each chunk; `fresh`: over a connection of its own, which no server closes just then.
 */
export async function complete(url, job) {
  const { body, leaveAfter = Infinity, restMs = 0, timeoutMs = 600_000, fresh = false } = job
  const answer = {
    status: 0,
    tokens: [],
    counts: [],
    text: '',
    ended: false,
    left: false,
    times: [],
  }
  let sent
  const leave = () => {
    answer.left = true
    sent.destroy()
  }
  const timer = setTimeout(() => sent.destroy(new Error('timeout')), timeoutMs)
  try {
    const response = await new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json' }
      const options = { method: 'POST', agent: fresh ? false : agent, headers }
      sent = request(new URL('/completion', url), options, resolve)
      sent.on('error', reject)
      sent.on('close', () => reject(new Error('closed before the answer')))
      sent.end(JSON.stringify({ temperature: 0, return_tokens: true, ...body }), () => {
        if (leaveAfter === -1) setTimeout(leave, 1)
      })
    })
    answer.status = response.statusCode
    if (leaveAfter === 0) leave()
    for await (const event of events(response, body.stream === true, restMs)) {
      take(answer, event)
      if (answer.tokens.length >= leaveAfter && !answer.ended) leave()
    }
  } catch (error) {
    if (!answer.left) answer.error ??= String(error)
  } finally {
    clearTimeout(timer)
  }
  return answer
}

async function* events(response, isStream, restMs) {
  let rest = ''
  response.setEncoding('utf8')
  for await (const chunk of response) {
    rest += chunk
    if (!isStream) continue
    const parts = rest.split('\n\n')
    rest = parts.pop()
    for (const part of parts) yield JSON.parse(part.replace(/^(data|error): /, ''))
    if (restMs > 0) await pause(restMs)
  }
  if (!isStream) yield JSON.parse(rest)
  else if (rest.trim() !== '') throw new Error(`the stream ends within an event: ${rest}`)
}

function take(answer, event) {
  if (event.tokens === undefined) answer.error = JSON.stringify(event.error ?? event)
  else {
    answer.tokens.push(...event.tokens)
    if (event.tokens.length > 0) answer.times.push(performance.now())
    answer.text += event.content
    answer.counts.push([answer.tokens.length, event.tokens_predicted])
    answer.probabilities = event.completion_probabilities
    if (event.stop) answer.ended = true
  }
}
