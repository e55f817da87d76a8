// @ts-check
import { definePlugin } from '@cllm/core'
import { defineProtocol, route, z } from '@cllm/http-koa/protocol'

const query = z.object({ text: z.string('a string'), model: z.string().optional() })

/** `GET /my-plugin?text=…`: how many tokens a text has. */
export const myPlugin = defineProtocol({
  name: 'my-plugin',
  doc: 'Counts the tokens of a text.',
  options: z.object({ path: z.string().default('/my-plugin') }),
  create: ({ path }) => ({
    name: 'my-plugin',
    routes: [
      route({
        method: 'get',
        path,
        access: 'user', // every API key; `open` needs none, `admin` an admin's
        summary: 'Count tokens',
        query,
        async handle(call) {
          const { text, model } = call.query
          const tokens = await call.open(model).client.tokenize(text)
          return { tokens: tokens.length }
        },
      }),
    ],
  }),
})

export default definePlugin({
  name: 'my-plugin',
  apiVersion: 1,
  register: (host) => host.registerProtocol(myPlugin),
})
