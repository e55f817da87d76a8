import { defaultEngineOptions, attempt, volatileLines } from '@cllm/core'
import { batchingNames, defaultPolicyName, orderNames } from '@cllm/scheduler'
import { resolveModelSpec } from '../paths.js'
import { option, folder } from './option.js'
import {
  decimal,
  duration,
  format,
  integer,
  isRecord,
  orNone,
  parseJson,
  record,
  splitAtCommas,
  text,
  type ValueFormat,
  emptyToNone,
  orAuto,
  someTexts,
} from './value-format.js'

/** Latency limits in milliseconds, as the option `slo` of a policy takes them. */
type SloSetting = Readonly<Record<string, unknown>>

const figures = ['ttft', 'itl']
const groups = ['tenants', 'priorities']

/** Converts times such as `300ms` to milliseconds; invalid values stay, for the check to report. */
const milliseconds = (given: unknown): unknown => {
  if (isRecord(given)) {
    const all = Object.entries(given).map(([name, limit]) => [name, milliseconds(limit)])
    return Object.fromEntries(all) as unknown
  }
  return attempt(() => (typeof given === 'string' ? duration(given.trim()) : given), given)
}

const isLimit = ([name, limit]: readonly [string, unknown]): boolean =>
  figures.includes(name) && typeof limit === 'number' && limit > 0

const isLimits = (value: unknown): boolean =>
  isRecord(value) && Object.entries(value).every(isLimit)

const isSlo = (value: unknown): boolean =>
  isRecord(value) &&
  Object.entries(value).every(([name, limit]) =>
    groups.includes(name)
      ? isRecord(limit) && Object.values(limit).every(isLimits)
      : isLimit([name, limit]),
  )

const parse = (text: string): unknown => {
  if (text.trim().startsWith('{')) return parseJson(text)
  const pairs = splitAtCommas(text).map((part) => part.split(':'))
  return pairs.every((pair) => pair.length === 2) ? (Object.fromEntries(pairs) as unknown) : text
}

/** Latency limits, of all requests and of some; written as text, `ttft:300ms,itl:30ms` or JSON. */
const slo = (): ValueFormat<SloSetting> =>
  format('limits such as ttft:300ms,itl:30ms', isSlo, { parse, placeholder: 'LIMITS' })

/** Converts the times in {@link slo} to milliseconds. */
const normalizeSlo = (value: unknown): unknown =>
  milliseconds(typeof value === 'string' ? parse(value) : value)

const [defaultBatching, defaultOrder] = defaultPolicyName.split('+') as [string, string]

/** The options for scheduling and admission: the branch `scheduler` of the schema. */
export const schedulerOptions = {
  batching: option(orNone(text('a name')), defaultBatching).describe(
    `How steps are composed: ${batchingNames.join(', ')}, or a plugin's batching.`,
  ),
  order: option(orNone(text('a name')), defaultOrder).describe(
    `Which waiting request is next: ${orderNames.join(', ')}, or a plugin's order.`,
  ),
  policy: option(text('a name'), defaultPolicyName).describe(
    "Batching and order together, as `batching+order`, or the name of a plugin's policy.",
  ),
  policy_options: option(record(), {}).describe(
    'Options of the policy; JSON in a flag or variable.',
  ),
  speculative: option(text('auto, off, a name or a model'), 'auto', {
    placeholder: 'auto|off|NAME|MODEL',
    resolve: resolveModelSpec,
  }).describe(
    'Proposer of tokens, which are verified along with the next one; answers stay the same. A ' +
      'constraint without a choice goes first (alone: `grammar`), then the named one: `ngram` (`auto`) ' +
      "looks the last tokens up in prompt and answer; a plugin's proposer; a smaller model with the " +
      'same vocabulary, named as in `--model`.',
  ),
  speculative_options: option(record(), {}).describe(
    'Options of the proposer; JSON in a flag or variable.',
  ),
  slo: option(slo(), {}, { normalize: normalizeSlo }).describe(
    'Latency limits: `ttft` to the first token, `itl` between two tokens. In YAML or JSON, `tenants` ' +
      'sets limits by tenant and `priorities` by priority (and above). For policies with the option ' +
      '`slo`, such as `adaptive`.',
  ),
  max_queued_requests: option(integer(0), defaultEngineOptions.maxQueuedRequests).describe(
    'Requests that may wait for a slot; further ones are refused with 429. With 0, none waits.',
  ),
  max_queued_tokens: option(integer(0), 0).describe(
    'Prompt tokens of all waiting requests; above it, 429, though one request may always wait. 0 is ' +
      'no limit.',
  ),
  max_queue_wait: option(decimal(0, Infinity, 'seconds'), 0).describe(
    'Longest predicted wait for a slot, in seconds; a longer one is 429 on arrival. 0 is no ' +
      'limit.',
  ),
  request_timeout: option(decimal(0, Infinity, 'seconds'), 0).describe(
    "Seconds from a request's arrival to its end, unless the request sets a limit; 0 is " +
      'no limit.',
  ),
}

/** The options for reusing what slots held, in RAM and on disk: the branch `cache` of the schema. */
export const cacheOptions = {
  ram: option(orAuto(integer(0, Infinity, 'MIB')), 'auto', { flag: 'cache-ram' }).describe(
    'RAM for conversations that lost their slot, in MiB, shared by all models; their next request ' +
      'computes only the new tokens. `auto` is 8192, or a quarter of the free memory if that is less; 0 ' +
      'saves nothing.',
  ),
  disk: folder({ flag: 'cache-disk' }).describe(
    'Folder for the conversations in `cache.ram`, which then survive a restart or a crash. The files ' +
      'hold what users wrote; only their owner can read them.',
  ),
  disk_size: option(integer(1, Infinity, 'MIB'), 10_240, { flag: 'cache-disk-size' }).describe(
    'Disk limit for `cache.disk`, in MiB; the least recently used files are deleted first.',
  ),
  disk_age: option(integer(1, Infinity, 'DAYS'), 30, { flag: 'cache-disk-age' }).describe(
    'Days after which an unused file in `cache.disk` is deleted.',
  ),
  key: option(orNone(text('a key')), null, {
    flag: 'cache-key',
    normalize: emptyToNone,
    isSecret: true,
  }).describe(
    'Encryption key (AES-256-GCM) for the files in `cache.disk` and `cache.slot_save_path`, such as ' +
      '`openssl rand -hex 32` prints; files of another key are ignored. Prefer the variable: other ' +
      'users of the machine can see flags. Unset: not encrypted.',
  ),
  volatile_lines: option(
    someTexts(volatileLines.join(', '), volatileLines.join(','), volatileLines),
    volatileLines,
  ).describe(
    'Lines of system messages that would change the beginning of every prompt: `billing` (of Claude ' +
      'Code) is left out, `clock` (such as `System time: …`) goes to the end of the last message. ' +
      'Empty: all stay as they are.',
  ),
  slot_save_path: folder().describe(
    'Folder for the files of `POST /slots/{id}?action=save` and `restore`.',
  ),
}
