import { defineOrder } from '@cllm/core/portable'

/**
 * First come, first served; preempted requests before new ones. No request is ever overtaken: the
 * bound is 0 tokens.
 */
export const fcfs = defineOrder({
  name: 'fcfs',
  doc: 'First come, first served.',
  create: () => ({ next: (state) => state.waiting }),
})
