import type { EngineClient } from '@cllm/core'
import { timed } from './run-client.js'
import type { StageRun } from './stage-run.js'
import { workSampling, type TokenWork } from './token-work.js'

/** A server and the engine behind it. */
export interface ServedEngine {
  readonly url: URL
  readonly client: EngineClient
}

/** Does the work over HTTP, in whole answers or streams: `POST /v1/completions`. */
export async function runHttp(
  { url, client }: ServedEngine,
  { outputTokens }: TokenWork,
  prompts: readonly (readonly number[])[],
  stream: boolean,
): Promise<StageRun> {
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
