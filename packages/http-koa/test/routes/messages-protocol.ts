import type { CllmError } from '@cllm/core'
import {
  type Answer,
  bindRoutes,
  buildRequest,
  type Call,
  collectAnswer,
  contentSchema,
  createAnswerParser,
  defaultsOptions,
  defineProtocol,
  encoded,
  errorMessage,
  eventStream,
  fields,
  list,
  overridesFrom,
  prepareChat,
  type ProtocolDefaults,
  route,
  startGeneration,
  statusElsewhere,
  contentOf,
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

const errorBody = (error: CllmError) => ({
  type: 'error',
  error: { type: error.code, message: errorMessage(error) },
})

async function messages(
  call: Call<z.output<typeof schema>>,
  { defaults }: { readonly defaults: ProtocolDefaults },
): Promise<Answer> {
  const { fields: body } = call
  const { model, client } = call.open(body.model)
  const turns = body.messages.map(({ role, content }, index) => ({
    role,
    ...contentOf(content, `messages.${index}.content`),
  }))
  const system = body.system === undefined ? [] : [{ role: 'system', content: body.system }]
  const { prompt, form } = await prepareChat(client, {
    messages: [...system, ...turns],
    tools: [],
    template: { addGenerationPrompt: true },
  })
  const settings = { maxTokens: body.max_tokens, temperature: body.temperature }
  const request = buildRequest(prompt, settings, withModelDefaults(client, defaults))
  const generation = await startGeneration(call, client, request)
  const head = { id: generation.id, type: 'message', role: 'assistant', model }
  if (body.stream !== true) {
    const { content, end } = await collectAnswer(generation, form)
    const usage = { output_tokens: end.usage.generatedTokens }
    return { ...head, content: [{ type: 'text', text: content }], usage }
  }
  return encoded(eventStream, generation.events, (write) => {
    const send = (type: string, data: object) =>
      write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`)
    const parser = createAnswerParser(form)
    return {
      begin: () => send('message_start', { message: { ...head, content: [] } }),
      push(event) {
        const parts = [...parser.push(event.text), ...(event.type === 'end' ? parser.end() : [])]
        for (const part of parts) send('content_block_delta', { index: 0, delta: part })
      },
      end: () => send('message_stop', {}),
      fail: (error) => send('error', errorBody(error)),
    }
  })
}

const routes = [
  route({
    method: 'post',
    path: '/v1/answers',
    access: 'user',
    summary: 'Answer a conversation',
    body: schema,
    answers: ['application/json', 'text/event-stream'],
    handle: messages,
  }),
]

/** Another vendor's messages API. */
export const messagesProtocol = defineProtocol({
  name: 'answers',
  doc: "A skeleton of another vendor's messages API.",
  options: defaultsOptions,
  create: (options, services) => ({
    name: 'answers',
    routes: bindRoutes(routes, {
      defaults: withOverrides({ maxTokens: 64, sampling: {} }, overridesFrom(options, services)),
    }),
    errors: { name: 'answers-error', status: statusElsewhere, body: errorBody },
  }),
})
