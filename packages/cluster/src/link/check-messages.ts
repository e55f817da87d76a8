import { wrongWithEvents } from './step-events.js'
import { isObject } from './is-object.js'

// Every envelope is checked, so these are plain comparisons. What a request or an answer has inside is the
// engine's and the caller's business.

type Fields = Readonly<Record<string, unknown>>

/** What is wrong with a message to a worker; undefined: nothing. */
export function wrongToWorker(message: unknown): string | undefined {
  if (!isObject(message)) return 'a message is no object'
  return wrongWith(message, toWorker)
}

/** What is wrong with a message to a front; undefined: nothing. */
export function wrongFromWorker(message: unknown): string | undefined {
  if (Array.isArray(message)) return wrongWithEvents(message)
  if (!isObject(message)) return 'a message is no object'
  return wrongWith(message, fromWorker)
}

type Checks = Readonly<Record<string, (message: Fields) => string | undefined>>

function wrongWith(message: Fields, checks: Checks): string | undefined {
  const type = String(message['type'])
  // Every object has a `toString`.
  return Object.hasOwn(checks, type) ? checks[type]!(message) : 'a message of no known type'
}

const toWorker: Checks = {
  hello: ({ front }) => expect('hello.front', isText(front)),
  place: ({ placement, routed, request }) =>
    expect('place.placement', isCount(placement)) ??
    expect('place.routed', isObject(routed) && isRouted(routed)) ??
    expect('place.request', isObject(request) && isObject(request['prompt'])),
  cancel: ({ placement, reason }) =>
    expect('cancel.placement', isCount(placement)) ??
    expect('cancel.reason', reason === undefined || typeof reason === 'string'),
  served: ({ services }) =>
    expect('served.services', Array.isArray(services) && services.every(isService)),
  leave: ({ call }) => expect('leave.call', isCount(call)),
  call: ({ call, name, arguments: values }) =>
    expect('call.call', isCount(call)) ??
    expect('call.name', typeof name === 'string') ??
    expect('call.arguments', Array.isArray(values)),
}

const states: ReadonlySet<unknown> = new Set(['up', 'draining', 'restarting'])

const fromWorker: Checks = {
  report: ({ state, report, clients }) =>
    expect('report.state', states.has(state)) ??
    expect('report.clients', isCount(clients)) ??
    expect('report.report', isObject(report) && isReport(report)),
  result: ({ call }) => expect('result.call', isCount(call)),
  error: ({ call, error }) =>
    expect('error.call', isCount(call)) ??
    expect('error.error', isObject(error) && typeof error['code'] === 'string'),
}

const measured = ['idleMs', 'tokenMs', 'besideMs', 'pairMs', 'stepMs', 'serviceMs']
const counted = ['slots', 'open', 'openTokens', 'backlogTokens', 'backlogPairs']

function isReport(report: Fields): boolean {
  const { chains, seen } = report
  return (
    counted.every((name) => isNumber(report[name])) &&
    // JSON has no infinity: it comes as null.
    measured.every((name) => (report[name] ?? undefined) === undefined || isNumber(report[name])) &&
    Array.isArray(chains) &&
    chains.every(areNumbers) &&
    isObject(seen) &&
    Object.values(seen).every(isNumber)
  )
}

function isRouted({ promptTokens, blocks, blockTokens, continuedTokens }: Fields): boolean {
  const areCounts = isNumber(promptTokens) && isNumber(blockTokens)
  const isNew = continuedTokens === undefined || isNumber(continuedTokens)
  return areCounts && isNew && areNumbers(blocks)
}

function isService(value: unknown): boolean {
  if (!isObject(value)) return false
  const { tenant, promptTokens, generatedTokens } = value
  return isText(tenant) && isNumber(promptTokens) && isNumber(generatedTokens)
}

function expect(field: string, isRight: boolean): string | undefined {
  return isRight ? undefined : `${field} is not what it should be`
}

function areNumbers(value: unknown): boolean {
  return Array.isArray(value) && value.every(isNumber)
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number'
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}
