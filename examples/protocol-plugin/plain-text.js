// @ts-check
import { definePlugin } from '@cllm/core'
import {
  ClientStream,
  defineProtocol,
  fields,
  mountRoutes,
  openModel,
  readFields,
  startGeneration,
  UnknownFields,
  z,
} from '@cllm/http-koa/protocol'

const schema = z.object({ prompt: fields.text, model: fields.name.optional() })

/** Text as it is generated: `curl localhost:8080/say -d '{"prompt": "Once upon a time"}'`. */
export const plainText = defineProtocol({
  name: 'plain-text',
  doc: 'Answers a prompt with plain text.',
  options: z.object({ path: z.string().default('/say') }),
  create: ({ path }) => ({
    name: 'plain-text',
    mount(router, directory) {
      const route = /** @type {const} */ ({ method: 'post', path, summary: 'Continue a text' })
      mountRoutes(router, [{ ...route, body: schema, handle }], {
        directory,
        unknownFields: new UnknownFields(),
      })
    },
  }),
})

/**
 * @param {import('@cllm/http-koa/protocol').KoaContext} ctx
 * @param {{ directory: import('@cllm/core').EngineDirectory, unknownFields: UnknownFields }} context
 */
async function handle(ctx, { directory, unknownFields }) {
  const { prompt, model } = await readFields(ctx, schema, unknownFields)
  const { client } = openModel(directory, model)
  const { events } = await startGeneration(ctx, client, { prompt: { text: prompt } })
  const answer = new ClientStream(ctx, { 'Content-Type': 'text/plain; charset=utf-8' })
  for await (const event of events) answer.write(event.text)
  answer.end('\n')
}

export default definePlugin({
  name: 'plain-text',
  apiVersion: 1,
  register(host) {
    host.registerProtocol(plainText)
  },
})
