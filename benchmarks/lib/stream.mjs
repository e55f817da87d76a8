import { request } from 'node:http'

const openAi = ({ tokens, cache = true }) => ({
  max_tokens: tokens,
  cache_prompt: cache,
  ignore_eos: true,
  temperature: 0.7,
  top_k: 40,
  top_p: 0.9,
  stream: true,
})

/** How each server, or route of cLLM, is asked for a stream of exactly `tokens` tokens, and how its events are read. */
const dialects = {
  cllm: {
    path: '/generate_stream',
    body: ({ prompt, tokens, cache = true, temperature = 0.7 }) => ({
      prompt,
      max_tokens: tokens,
      cache,
      timings: true,
      ignore_eos: true,
      temperature,
      top_k: 40,
      top_p: 0.9,
    }),
    isToken: (event) => event.done === false,
  },
  'llama-server': {
    path: '/completion',
    body: ({ prompt, tokens, cache = true, temperature = 0.7 }) => ({
      prompt,
      n_predict: tokens,
      cache_prompt: cache,
      ignore_eos: true,
      temperature,
      top_k: 40,
      top_p: 0.9,
      min_p: 0,
      stream: true,
      return_tokens: true,
    }),
    isToken: (event) => event.stop === false,
  },
  openai: {
    path: '/v1/completions',
    body: (job) => ({ prompt: job.prompt, ...openAi(job) }),
    isToken: ({ choices }) => choices[0]?.finish_reason === null,
  },
  'openai-chat': {
    path: '/v1/chat/completions',
    body: (job) => ({ messages: [{ role: 'user', content: job.content }], ...openAi(job) }),
    isToken: ({ choices }) => Boolean(choices[0]?.delta.content),
  },
}

/**
 * Sends one request and returns when each of its tokens came, in milliseconds after the sending, and
 * its last event. With `cache: false` it may not use what other requests computed; `id` names it.
 */
export function stream(server, job) {
  const dialect = dialects[server.kind]
  const body = JSON.stringify(dialect.body(job))
  return new Promise((resolve, reject) => {
    const began = performance.now()
    const times = []
    let text = ''
    let last
    let rest = ''
    const sent = request(
      new URL(dialect.path, server.url),
      { method: 'POST', agent: false, headers: headersOf(job) },
      (response) => {
        response.setEncoding('utf8')
        response.on('data', (chunk) => {
          const now = performance.now() - began
          const lines = (rest + chunk).split('\n\n')
          rest = lines.pop()
          // a server that computes for long says so in comments, which begin with a colon
          for (const line of lines.filter((text) => text !== 'data: [DONE]' && text[0] !== ':')) {
            const event = JSON.parse(line.replace(/^data: /, ''))
            if (event.error !== undefined) reject(new Error(JSON.stringify(event)))
            if (dialect.isToken(event)) times.push(now)
            text += event.token ?? event.content ?? ''
            last = event
          }
        })
        response.on('error', reject)
        response.on('end', () => {
          if (response.statusCode !== 200) reject(new Error(`${response.statusCode}: ${rest}`))
          else resolve({ began, times, text, last, total: performance.now() - began })
        })
      },
    )
    sent.on('error', reject)
    sent.end(body)
  })
}

const headersOf = ({ id }) => ({
  'content-type': 'application/json',
  ...(id === undefined ? {} : { 'x-request-id': id }),
})

/** Times between a stream's tokens. */
export const gaps = ({ times }) => times.slice(1).map((time, index) => time - times[index])
