import type { RequestEvent } from '@cllm/core'

// Every envelope is checked, so these are plain comparisons for speed. The content of requests and answers is checked
// by the engine and the caller.

type Fields = Readonly<Record<string, unknown>>

/** What is wrong with a message to a worker; undefined: it is valid. */
export const wrongToWorker = (message: unknown): string | undefined => wrongWith(message, toWorker)

/** What is wrong with a message to a front; undefined: it is valid. */
export const wrongFromWorker = (message: unknown): string | undefined =>
  Array.isArray(message) ? wrongWithEvents(message) : wrongWith(message, fromWorker)

/** Whether a value is an object or a list. */
export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null

type Check = (value: unknown) => boolean

/** The checks of a message's fields, by the message's type. */
type Checks = Readonly<Record<string, Readonly<Record<string, Check>>>>

function wrongWith(message: unknown, checks: Checks): string | undefined {
  if (!isObject(message)) return 'a message is no object'
  const type = String(message['type'])
  // An own property, as every object has a `toString`.
  if (!Object.hasOwn(checks, type)) return 'a message of no known type'
  const wrong = Object.entries(checks[type]!).find(([name, isRight]) => !isRight(message[name]))
  return wrong && `${type}.${wrong[0]} is not what it should be`
}

const isNumber: Check = (value) => typeof value === 'number'
const isString: Check = (value) => typeof value === 'string'
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0
const isText: Check = (value) => isString(value) && value !== ''
const areNumbers: Check = (value) => Array.isArray(value) && value.every(isNumber)
const isAbsentOr =
  (isRight: Check): Check =>
  (value) =>
    value === undefined || isRight(value)
/** A figure; absent or null if the worker has not measured it yet. */
const isMeasured: Check = (value) => isNumber(value ?? 0)

/** Checks for an object with these fields. */
const has = (checks: Readonly<Record<string, Check>>): Check => {
  const fields = Object.entries(checks)
  return (value) => isObject(value) && fields.every(([name, isRight]) => isRight(value[name]))
}

const each = (isRight: Check, ...names: readonly string[]): Readonly<Record<string, Check>> =>
  Object.fromEntries(names.map((name) => [name, isRight]))

const isError = has({ code: isString })
const isService = has({ tenant: isText, promptTokens: isNumber, generatedTokens: isNumber })
const isRouted = has({
  promptTokens: isNumber,
  blocks: areNumbers,
  blockTokens: isNumber,
  files: isAbsentOr(areNumbers),
  continuedTokens: isAbsentOr(isNumber),
})
const isReport = has({
  ...each(isNumber, 'slots', 'open', 'openTokens', 'backlogTokens', 'backlogPairs'),
  ...each(isMeasured, 'tokenMs', 'besideMs', 'pairMs', 'stepMs', 'serviceMs', 'fileMs'),
  ...each(isMeasured, 'idleMs', 'backlogFiles'),
  chains: (chains) => Array.isArray(chains) && chains.every(areNumbers),
  seen: (seen) => isObject(seen) && Object.values(seen).every(isNumber),
})

const toWorker: Checks = {
  hello: { front: isText },
  place: {
    placement: isCount,
    routed: isRouted,
    request: (request) => isObject(request) && isObject(request['prompt']),
  },
  cancel: { placement: isCount, reason: isAbsentOr(isString) },
  served: { services: (services) => Array.isArray(services) && services.every(isService) },
  leave: { call: isCount },
  call: { call: isCount, name: isString, arguments: Array.isArray },
}

const states: ReadonlySet<unknown> = new Set(['up', 'draining', 'restarting'])

const fromWorker: Checks = {
  report: { state: (state) => states.has(state), clients: isCount, report: isReport },
  result: { call: isCount },
  error: { call: isCount, error: isError },
}

const eventTypes: ReadonlySet<unknown> = new Set(['start', 'progress', 'token', 'end', 'error'])

/** What is wrong with a list of {@link StepEvents}; undefined: it is valid. */
function wrongWithEvents(events: readonly unknown[]): string | undefined {
  for (let index = 0; index < events.length;) {
    if (typeof events[index++] !== 'number') return `events: no placement at ${index - 1}`
    const next = events[index++]
    if (typeof next === 'number') {
      if (typeof events[index++] !== 'string') return `events: no text at ${index - 1}`
    } else if (!isEvent(next)) return `events: no event at ${index - 1}`
  }
  return undefined
}

function isEvent(value: unknown): value is RequestEvent {
  if (!isObject(value)) return false
  const { type, error, text, token, usage, timings } = value
  if (!eventTypes.has(type)) return false
  if (type === 'error') return isError(error)
  if (type === 'token') return typeof token === 'number' && typeof text === 'string'
  if (type === 'end') return typeof text === 'string' && isObject(usage) && isObject(timings)
  return true
}
