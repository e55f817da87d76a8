// @ts-check
import { definePlugin } from '@cllm/core'
import {
  defineProtocol,
  fields,
  startGeneration,
  StreamReply,
  route,
  z,
} from '@cllm/http-koa/protocol'

const body = z.object({ prompt: fields.text, model: fields.name.optional() })

/** Text as it is generated: `curl localhost:8080/say -d '{"prompt": "Once upon a time"}'`. */
export const plainText = defineProtocol({
  name: 'plain-text',
  doc: 'Answers a prompt with plain text.',
  options: z.object({ path: z.string().default('/say') }),
  create: ({ path }) => ({
    name: 'plain-text',
    routes: [
      route({
        method: 'post',
        path,
        access: 'user',
        summary: 'Continue a text',
        body,
        async handle(call) {
          const { prompt, model } = call.fields
          const { client } = call.open(model)
          const { events } = await startGeneration(call, client, { prompt: { text: prompt } })
          return new StreamReply('text/plain; charset=utf-8', async (answer) => {
            for await (const event of events) answer.write(event.text)
            answer.write('\n')
          })
        },
      }),
    ],
  }),
})

export default definePlugin({
  name: 'plain-text',
  apiVersion: 1,
  register(host) {
    host.registerProtocol(plainText)
  },
})
