import { timed } from './run-client.mjs'
import { workSampling } from '../../packages/bench/dist/index.js'

/** Does the work over HTTP, in whole answers or streams: `POST /v1/completions`. */
export async function runHttp({ url, client }, { outputTokens }, prompts, stream) {
  const { topK, topP, ...sampling } = workSampling
  const common = { max_tokens: outputTokens, ignore_eos: true, top_k: topK, top_p: topP }
  return await timed(client, async () => {
    await Promise.all(
      prompts.map(async (prompt) => {
        const response = await fetch(new URL('/v1/completions', url), {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ prompt, stream, ...common, ...sampling }),
        })
        const text = await response.text()
        if (!response.ok) throw new Error(`the server answered ${response.status}: ${text}`)
      }),
    )
  })
}
