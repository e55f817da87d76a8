import type { EngineClient } from '@cllm/core'
import { errorBody } from '../../errors/error-body.js'
import type { KoaContext } from '../../routes/koa-context.js'
import { startGeneration } from '../../request/generation.js'
import { startEventStream } from '../../stream/start-event-stream.js'
import type { NativeRequest } from './generate-request.js'
import type { NativeContext } from './native-context.js'
import { describeTimings } from './request-report.js'
import { failStream } from '../../stream/fail-stream.js'

/**
 * Streams a generation as server-sent events, one per token. A refused request gets a plain
 * HTTP error; a later failure ends the stream with an error event.
 */
export async function streamGeneration(
  ctx: KoaContext,
  native: NativeContext,
  client: EngineClient,
  { request, timings }: NativeRequest,
): Promise<void> {
  const { id, events } = await startGeneration(ctx, client, request)
  const response = startEventStream(ctx)
  const opening = `data: {"id":${JSON.stringify(id)},`
  const token = (text: string) => `${opening}"token":${JSON.stringify(text)},"done":false}\n\n`
  try {
    for await (const event of events) {
      if (event.type === 'token') response.write(token(event.text))
      if (event.type === 'end') {
        native.waitTimes.add(event.timings.queueMs)
        if (event.text !== '') response.write(token(event.text))
        const count = event.usage.generatedTokens
        const more = timings
          ? `,"timings":${JSON.stringify(describeTimings(event.timings, event.usage))}`
          : ''
        response.write(`${opening}"token":"","done":true,"generated_tokens":${count}${more}}\n\n`)
      }
    }
  } catch (error) {
    failStream(ctx, response, error, (shown) => {
      const message = JSON.stringify(errorBody(shown).error)
      response.write(`${opening}"error":${message},"done":true}\n\n`)
    })
  }
  response.end()
}
