import { pause } from './servers.mjs'

const endpoint = '/v1/completions'

/** Starts a batch of completions and returns when its lines are checked and may be computed. */
export async function startBatch({ url }, { prompts, tokens }) {
  const [{ id: model }] = (await ask(`${url}/v1/models`)).data
  const lines = prompts.map((prompt, index) =>
    JSON.stringify({
      custom_id: `line-${index}`,
      method: 'POST',
      url: endpoint,
      body: { model, prompt, max_tokens: tokens, ignore_eos: true },
    }),
  )
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob([lines.join('\n')]), 'lines.jsonl')
  const { id: file } = await ask(`${url}/v1/files`, { method: 'POST', body: form })
  const { id } = await ask(`${url}/v1/batches`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input_file_id: file, endpoint, completion_window: '24h' }),
  })
  await reaches(url, id, (status) => status !== 'validating')
  return {
    /** How many lines have an answer, and how many have failed. */
    counts: async () => (await ask(`${url}/v1/batches/${id}`)).request_counts,
    /** Cancels it and returns when it has ended. */
    end: async () => {
      await ask(`${url}/v1/batches/${id}/cancel`, { method: 'POST' })
      await reaches(url, id, (status) => status === 'cancelled' || status === 'completed')
    },
  }
}

/** Tokens that the engine's steps have computed so far, of prompts and of answers. */
export async function stepTokens({ url }) {
  const text = await (await fetch(`${url}/metrics`)).text()
  const of = (kind) => {
    const lines = text.split('\n').filter((line) => line.startsWith('cllm_step_tokens_total{'))
    const own = lines.filter((line) => line.includes(`kind="${kind}"`))
    return own.reduce((total, line) => total + Number(line.split(' ').at(-1)), 0)
  }
  return { prompt: of('prefill'), answer: of('decode') }
}

async function reaches(url, id, isReached) {
  while (!isReached((await ask(`${url}/v1/batches/${id}`)).status)) await pause(100)
}

async function ask(url, init) {
  const response = await fetch(url, init)
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`)
  return await response.json()
}
