// @ts-check
import { defineOrder, definePlugin } from '@cllm/core'
import { boundedOvertaking, patienceOption, WaitingHeap } from '@cllm/scheduler'
import { z } from 'zod'

export const shortAnswers = defineOrder({
  name: 'short-answers',
  doc: 'The fewest tokens asked for first.',
  options: z.object(patienceOption),
  create: ({ patience }) =>
    boundedOvertaking(new WaitingHeap(({ maxTokens }) => maxTokens), patience),
})

export default definePlugin({
  name: 'short-answers',
  apiVersion: 1,
  register: (host) => host.registerOrder(shortAnswers),
})
