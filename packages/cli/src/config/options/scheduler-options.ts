import { defaultEngineOptions } from '@cllm/core'
import { batchingNames, defaultPolicyName, orderNames } from '@cllm/scheduler'
import { resolveModelSpec } from '../paths.js'
import { option } from './option.js'
import { normalizeSlo, slo, type SloSetting } from './slo-format.js'
import { decimal, integer, orNone, record, text } from './value-format.js'

const [defaultBatching, defaultOrder] = defaultPolicyName.split('+') as [string, string]

/** The options for scheduling and admission: the branch `scheduler` of the schema. */
export const schedulerOptions = {
  batching: option<string | null>({
    doc: `How steps are composed: ${batchingNames.join(', ')}, or a plugin's batching.`,
    default: defaultBatching,
    format: orNone(text('a name')),
    arg: 'batching',
    placeholder: 'NAME',
  }),
  order: option<string | null>({
    doc: `Which waiting request is next: ${orderNames.join(', ')}, or a plugin's order.`,
    default: defaultOrder,
    format: orNone(text('a name')),
    arg: 'order',
    placeholder: 'NAME',
  }),
  policy: option({
    doc: "Batching and order together, as `batching+order`, or the name of a plugin's policy.",
    default: defaultPolicyName,
    format: text('a name'),
    arg: 'policy',
    placeholder: 'NAME',
  }),
  policy_options: option({
    doc: 'Options of the policy; JSON in a flag or variable.',
    default: {},
    format: record(),
    arg: 'policy-options',
    placeholder: 'JSON',
  }),
  speculative: option({
    doc:
      'Speculation: guessed tokens are verified along with the next one where that is ' +
      'faster; answers stay the same. `auto` is `ngram`, which looks the last tokens up in ' +
      "prompt and answer, if the model allows it. Also the name of a plugin's proposer, or " +
      'a smaller model with the same vocabulary, named as in `--model`.',
    default: 'auto',
    format: text('auto, off, a name or a model'),
    resolve: resolveModelSpec,
    arg: 'speculative',
    placeholder: 'auto|off|NAME|MODEL',
  }),
  speculative_options: option({
    doc: 'Options of the proposer; JSON in a flag or variable.',
    default: {},
    format: record(),
    arg: 'speculative-options',
    placeholder: 'JSON',
  }),
  slo: option<SloSetting>({
    doc:
      'Latency limits: `ttft` to the first token, `itl` between two tokens. In YAML or ' +
      'JSON, `tenants` sets limits by tenant and `priorities` by priority (and above). ' +
      'Passed to the policy as `slo`; only some policies support it, such as `adaptive`.',
    default: {},
    format: slo(),
    normalize: normalizeSlo,
    arg: 'slo',
    placeholder: 'LIMITS',
  }),
  max_queued_requests: option({
    doc:
      'Number of requests that may wait for a slot; further ones are refused with 429. ' +
      'With 0, a request that cannot start at once is refused.',
    default: defaultEngineOptions.maxQueuedRequests,
    format: integer({ minimum: 0 }),
    arg: 'max-queued-requests',
    placeholder: 'COUNT',
  }),
  max_queued_tokens: option({
    doc:
      'Prompt tokens of all waiting requests together; a request above the limit is ' +
      'refused with 429, though one request may always wait. 0 is no limit.',
    default: 0,
    format: integer({ minimum: 0 }),
    arg: 'max-queued-tokens',
    placeholder: 'COUNT',
  }),
  max_queue_wait: option({
    doc:
      'Longest predicted wait for a slot, in seconds; a request that would wait longer is ' +
      'refused with 429 on arrival. 0 is no limit.',
    default: 0,
    format: decimal({ minimum: 0, unit: 'seconds' }),
    arg: 'max-queue-wait',
    placeholder: 'SECONDS',
  }),
  request_timeout: option({
    doc:
      "Seconds from a request's arrival to its end, unless the request sets a limit; 0 is " +
      'no limit.',
    default: 0,
    format: decimal({ minimum: 0, unit: 'seconds' }),
    arg: 'request-timeout',
    placeholder: 'SECONDS',
  }),
}
