import type { CllmError, EngineDirectory } from '@cllm/core'
import {
  buildRequest,
  collectAnswer,
  contentSchema,
  createAnswerParser,
  defaultsOptions,
  defineProtocol,
  errorMessage,
  fields,
  type KoaContext,
  list,
  mountRoutes,
  openModel,
  overridesFrom,
  prepareChat,
  type ProtocolDefaults,
  publicError,
  readFields,
  startEventStream,
  startGeneration,
  statusElsewhere,
  textOf,
  UnknownFields,
  withOverrides,
  z,
  withModelDefaults,
} from '@cllm/http-koa/protocol'

// A skeleton of another vendor's API, as a plug-in writes it: all of it is in this file.

const schema = z.object({
  model: fields.name.optional(),
  max_tokens: fields.integer(1, fields.largest).optional(),
  system: fields.text.optional(),
  messages: list(
    z.object({ role: z.enum(['user', 'assistant']), content: contentSchema }, 'a message'),
    'an array of messages',
    { least: [1, 'at least one message'] },
  ),
  temperature: fields.number(0, 1).optional(),
  stream: fields.boolean.optional(),
})

interface MessagesContext {
  readonly directory: EngineDirectory
  readonly defaults: ProtocolDefaults
  readonly unknownFields: UnknownFields
}

const errorBody = (error: CllmError) => ({
  type: 'error',
  error: { type: error.code, message: errorMessage(error) },
})

async function messages(ctx: KoaContext, context: MessagesContext): Promise<void> {
  const body = await readFields(ctx, schema, context.unknownFields)
  const { model, client } = openModel(context.directory, body.model)
  const turns = body.messages.map(({ role, content }, index) => ({
    role,
    content: textOf(content, `messages.${index}.content`),
  }))
  const system = body.system === undefined ? [] : [{ role: 'system', content: body.system }]
  const { prompt, form } = await prepareChat(client, {
    messages: [...system, ...turns],
    tools: [],
    template: { addGenerationPrompt: true },
  })
  const settings = { maxTokens: body.max_tokens, temperature: body.temperature }
  const request = buildRequest(prompt, settings, withModelDefaults(client, context.defaults))
  const generation = await startGeneration(ctx, client, request)
  const head = { id: generation.id, type: 'message', role: 'assistant', model }
  if (body.stream !== true) {
    const { content, end } = await collectAnswer(generation, form)
    const usage = { output_tokens: end.usage.generatedTokens }
    ctx.body = { ...head, content: [{ type: 'text', text: content }], usage }
    return
  }
  const stream = startEventStream(ctx)
  const send = (type: string, data: object) =>
    stream.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`)
  const parser = createAnswerParser(form)
  try {
    send('message_start', { message: { ...head, content: [] } })
    for await (const event of generation.events) {
      const parts = [...parser.push(event.text), ...(event.type === 'end' ? parser.end() : [])]
      for (const part of parts) send('content_block_delta', { index: 0, delta: part })
    }
    send('message_stop', {})
  } catch (error) {
    if (!stream.destroyed) send('error', errorBody(publicError(error, ctx.state.transport.logger)))
  }
  stream.end()
}

const routes = [
  {
    method: 'post',
    path: '/v1/answers',
    summary: 'Answer a conversation',
    body: schema,
    answers: ['application/json', 'text/event-stream'],
    handle: messages,
  },
] as const

/** Another vendor's messages API. */
export const messagesProtocol = defineProtocol({
  name: 'answers',
  doc: "A skeleton of another vendor's messages API.",
  options: defaultsOptions,
  create: (options, { defaults }) => ({
    name: 'answers',
    routes,
    errors: {
      covers: (path) => path.startsWith('/v1/answers'),
      status: statusElsewhere,
      body: errorBody,
    },
    mount(router, directory) {
      const own = { maxTokens: 64, sampling: {} }
      mountRoutes(router, routes, {
        directory,
        defaults: withOverrides(own, overridesFrom(options, defaults)),
        unknownFields: new UnknownFields(),
      })
    },
  }),
})
