import { requestId } from '@cllm/core'
import { openModel } from '../../../engines/open-model.js'
import { maxTokensField } from '../openai-fields.js'
import { text } from '../../../fields/fields.js'
import { readFields } from '../../../fields/read-fields.js'
import { type EndEvent, type Generation, startGeneration } from '../../../request/generation.js'
import { withOverrides } from '../../../request/protocol-defaults.js'
import { timingsOf, usageOf } from '../../../request/usage.js'
import type { KoaContext } from '../../../routes/koa-context.js'
import { failStream } from '../../../stream/fail-stream.js'
import { expectStream, startEventStream } from '../../../stream/start-event-stream.js'
import { type OpenAiContext, secondsNow } from '../openai-context.js'
import { openAiDefaults } from '../openai-defaults.js'
import { openAiErrorBody } from '../openai-error.js'
import { completionsSchema, toCompletionRequests } from './completions-request.js'

/** The body of `POST /v1/fim/completions`: that of a text completion with one prompt and one answer. */
export const fimSchema = completionsSchema
  .omit({
    n: true,
    best_of: true,
    echo: true,
    logprobs: true,
    stream_options: true,
    return_progress: true,
    timings_per_token: true,
    verbose: true,
  })
  .extend({ prompt: text, max_tokens: maxTokensField.optional() })

/** `POST /v1/fim/completions`, Mistral's: what stands between a prompt and a suffix, as the answer of a chat. */
export async function fimCompletions(ctx: KoaContext, openAi: OpenAiContext): Promise<void> {
  const fields = await readFields(ctx, fimSchema, openAi.unknownFields)
  expectStream(ctx, fields.stream)
  const { model, client } = openModel(openAi.directory, fields.model)
  const defaults = withOverrides(openAiDefaults['/v1/fim/completions'], openAi.overrides)
  const [request] = await toCompletionRequests(fields, client, defaults)
  const generation = await startGeneration(ctx, client, request!)
  const id = requestId(ctx.state.transport.random)
  const head = { id, created: secondsNow(ctx), model }
  if (fields.stream === true) {
    await stream(ctx, generation, head)
    return
  }
  const { content, end } = await collect(generation)
  const message = { role: 'assistant', content }
  ctx.body = {
    ...head,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: end.reason }],
    usage: usageOf([end]),
    timings: timingsOf(end),
  }
}

/** All of it: a parser of a chat's answers would drop white space at its end. */
async function collect({ events }: Generation): Promise<{ content: string; end: EndEvent }> {
  let content = ''
  let end: EndEvent | undefined
  for await (const event of events) {
    content += event.text
    if (event.type === 'end') end = event
  }
  return { content, end: end! }
}

/** As Mistral streams chats: the last chunk has the usage, unasked. */
async function stream(ctx: KoaContext, { events }: Generation, head: object): Promise<void> {
  const response = startEventStream(ctx)
  const send = (delta: object, finish: string | null = null, more: object = {}) => {
    const choices = [{ index: 0, delta, finish_reason: finish }]
    const chunk = { ...head, object: 'chat.completion.chunk', choices, ...more }
    response.write(`data: ${JSON.stringify(chunk)}\n\n`)
  }
  try {
    send({ role: 'assistant', content: '' })
    for await (const event of events) {
      const { text: content } = event
      if (event.type === 'end') send({ content }, event.reason, { usage: usageOf([event]) })
      else if (content !== '') send({ content })
    }
    response.end('data: [DONE]\n\n')
  } catch (error) {
    failStream(ctx, response, error, (shown) =>
      response.end(`data: ${JSON.stringify(openAiErrorBody(shown))}\n\n`),
    )
  }
}
