// @ts-check
import { definePlugin } from '@cllm/core'
import { text } from 'node:stream/consumers'

/**
 * Text in, text out: `curl --data-binary 'Once upon a time' localhost:8080/say` prints the answer
 * while it is made.
 *
 * @returns {import('@cllm/http-koa').KoaProtocol}
 */
export function plainText() {
  return {
    name: 'plain-text',
    mount(router, directory) {
      router.post('/say', async (ctx) => {
        const leaving = new AbortController()
        ctx.res.once('close', () => leaving.abort())
        const request = { prompt: { text: await text(ctx.req) } }
        const events = directory.open().submit(request, { signal: leaving.signal })
        await events.next() // the start, or the error that says what is wrong
        ctx.respond = false
        ctx.res.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' })
        for await (const event of events) {
          if (event.type !== 'start') ctx.res.write(event.text)
        }
        ctx.res.end('\n')
      })
    },
  }
}

export default definePlugin({
  name: 'plain-text',
  apiVersion: 1,
  register(host) {
    host.registerProtocol('plain-text', plainText)
  },
})
