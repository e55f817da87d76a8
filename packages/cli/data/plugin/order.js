// @ts-check
import { defineOrder, definePlugin } from '@cllm/core'
import { boundedOvertaking, patienceOption, WaitingHeap } from '@cllm/scheduler'
import { z } from 'zod'

export const myPlugin = defineOrder({
  name: 'my-plugin',
  doc: 'The fewest tokens asked for first.',
  options: z.object(patienceOption),
  // The request with the smallest rank is next; `patience` bounds how much may overtake one.
  create: ({ patience }) =>
    boundedOvertaking(new WaitingHeap(({ maxTokens }) => maxTokens), patience),
})

export default definePlugin({
  name: 'my-plugin',
  apiVersion: 1,
  register: (host) => host.registerOrder(myPlugin),
})
