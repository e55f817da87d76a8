import { defaultEngineOptions } from '@cllm/core'
import { defaultPolicyName } from '@cllm/scheduler'
import { option } from './option.js'
import { batchingNames, orderNames } from './policy-parts.js'
import { decimal, integer, orNone, record, text } from './value-format.js'

const [defaultBatching, defaultOrder] = defaultPolicyName.split('+') as [string, string]

/** The options for who is served when, and who is not: the branch `scheduler` of the schema. */
export const schedulerOptions = {
  batching: option<string | null>({
    doc: `What a step looks like: ${batchingNames.join(', ')}.`,
    default: defaultBatching,
    format: orNone(text('a name')),
    arg: 'batching',
    placeholder: 'NAME',
  }),
  order: option<string | null>({
    doc: `Which waiting request is next: ${orderNames.join(', ')}.`,
    default: defaultOrder,
    format: orNone(text('a name')),
    arg: 'order',
    placeholder: 'NAME',
  }),
  policy: option({
    doc: "`batching+order` in one, or the name of a plugin's policy.",
    default: defaultPolicyName,
    format: text('a name'),
    arg: 'policy',
    placeholder: 'NAME',
  }),
  policy_options: option({
    doc: 'Options of the policy; as a flag or variable, JSON.',
    default: {},
    format: record(),
    arg: 'policy-options',
    placeholder: 'JSON',
  }),
  max_queued_requests: option({
    doc:
      'Requests that may wait when all slots are taken; one more is refused with 429. With 0 a ' +
      'request is served at once or not at all.',
    default: defaultEngineOptions.maxQueuedRequests,
    format: integer({ minimum: 0 }),
    arg: 'max-queued-requests',
    placeholder: 'COUNT',
  }),
  max_queued_tokens: option({
    doc:
      'Tokens that the prompts of waiting requests may have together; beyond it 429. One request ' +
      'may always wait. 0 is no limit.',
    default: 0,
    format: integer({ minimum: 0 }),
    arg: 'max-queued-tokens',
    placeholder: 'COUNT',
  }),
  max_queue_wait: option({
    doc:
      'Seconds that a request may have to wait for its slot, as predicted when it comes; one that ' +
      'would wait longer is refused with 429. 0 is no limit.',
    default: 0,
    format: decimal({ minimum: 0, unit: 'seconds' }),
    arg: 'max-queue-wait',
    placeholder: 'SECONDS',
  }),
  request_timeout: option({
    doc: 'Seconds from arrival to end of a request that sets no limit of its own; 0 is no limit.',
    default: 0,
    format: decimal({ minimum: 0, unit: 'seconds' }),
    arg: 'request-timeout',
    placeholder: 'SECONDS',
  }),
}
