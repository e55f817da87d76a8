// @ts-check
import { definePlugin, defineRouter } from '@cllm/core'

export const myPlugin = defineRouter({
  name: 'my-plugin',
  doc: 'The worker that gives the first token earliest.',
  create: () => ({
    place(request, workers) {
      const earliest = workers.reduce((a, b) => (b.firstTokenMs < a.firstTokenMs ? b : a))
      return { worker: earliest.id }
    },
  }),
})

export default definePlugin({
  name: 'my-plugin',
  apiVersion: 1,
  register: (host) => host.registerRouter(myPlugin),
})
