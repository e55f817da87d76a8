/**
 * What the compiler promises to users of `@cllm/core`. `tsc -b` checks this file; nothing runs it. A
 * line below `@ts-expect-error` must not compile.
 */
import {
  ADMISSION,
  type Admission,
  type BatchingDefinition,
  CLOCK,
  type Clock,
  defineBatching,
  defineOrder,
  definePlugin,
  definePolicy,
  type EngineClient,
  type EngineObserver,
  type ErrorCode,
  type GenerateEvent,
  type Order,
  type OrderDefinition,
  type Plugin,
  type PluginHost,
  type SchedulerPolicy,
  type StepRecord,
  type TokenId,
  type Backend,
  CllmError,
} from '@cllm/core'
import { createServer, type ServerParts } from '@cllm/host'
import {
  testBackend,
  testBatching,
  type TestContext,
  testEngineClient,
  testOrder,
  testPolicy,
  testProtocol,
} from '@cllm/testing'
import { z } from 'zod'

// oxlint-disable typescript/no-unnecessary-type-parameters -- they defer the comparison
type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
// oxlint-enable typescript/no-unnecessary-type-parameters

/** Compiles only where the two types are the same. */
declare function same<A, B>(...proof: Equal<A, B> extends true ? [] : [never]): void

declare const host: PluginHost
declare const order: Order
declare const policy: SchedulerPolicy
declare const client: EngineClient
declare const backend: Backend
declare const admission: Admission
declare const parts: ServerParts
declare const t: TestContext

// Definitions take the types of their options from the schema.
const patient = defineOrder({
  name: 'patient',
  doc: 'Waits.',
  options: z.object({ patience: z.number().default(1), names: z.array(z.string()).optional() }),
  create: (options) => {
    same<typeof options, { patience: number; names?: string[] | undefined }>()
    return order
  },
})
same<typeof patient, OrderDefinition<{ patience: number; names?: string[] | undefined }>>()
host.registerOrder(patient)

definePolicy({
  name: 'mine',
  doc: 'Mine.',
  options: z.object({ size: z.number() }),
  create: ({ size }) => {
    same<typeof size, number>()
    return policy
  },
})
// @ts-expect-error an order is no policy
host.registerPolicy(defineOrder({ name: 'a', doc: '', create: () => order }))
// @ts-expect-error an order makes orders
defineOrder({ name: 'a', doc: '', create: () => 'fcfs' })
// @ts-expect-error a definition has a line of documentation
defineBatching({ name: 'a', create: () => ({}) as ReturnType<BatchingDefinition['create']> })
// @ts-expect-error options need the names that z.object knows
definePolicy({ name: 'a', doc: '', options: z.string(), create: () => policy })

// Plug-ins, too.
const plugin = definePlugin({
  name: 'mine',
  apiVersion: 1,
  options: z.object({ size: z.number() }),
  register: (given, options) => {
    same<typeof given, PluginHost>()
    same<typeof options, { size: number }>()
  },
})
same<typeof plugin, Plugin<{ size: number }>>()
// @ts-expect-error there is one version of the interface
definePlugin({ name: 'mine', apiVersion: 2, register: () => undefined })

// A part's factory makes what its token names, and gets other parts by their types.
host.provide(ADMISSION, 'mine', ({ get, original }) => {
  same<ReturnType<typeof original>, Admission>()
  const clock = get(CLOCK)
  same<typeof clock, Clock>()
  return admission
})
// @ts-expect-error a clock is no admission
host.provide(ADMISSION, 'mine', ({ get }) => get(CLOCK))

// Events are told apart by their type.
const read = (event: GenerateEvent): string => {
  switch (event.type) {
    case 'start':
      // @ts-expect-error no token yet
      return `${event.id} ${event.token}`
    case 'progress':
      return `${event.processedTokens} of ${event.promptTokens}`
    case 'token':
      same<typeof event.token, TokenId>()
      // @ts-expect-error it has not ended
      return `${event.text} ${event.reason}`
    case 'end':
      same<typeof event.reason, 'stop' | 'length'>()
      return event.reason
  }
}
export const answers = async () => {
  for await (const event of client.submit({ prompt: { text: 'a' } })) read(event)
}
client.submit({ prompt: { tokens: [1] }, maxTokens: 1, sampling: { temperature: 0 } })
// @ts-expect-error a prompt is an object: text, messages or tokens
client.submit({ prompt: 'a' })
// @ts-expect-error fields have one spelling
client.submit({ prompt: { text: 'a' }, max_tokens: 1 })

// An observer takes the notifications that it wants, and no others.
export const silent: EngineObserver = {}
export const one: EngineObserver = { onStep: (step) => same<typeof step, StepRecord>() }
// @ts-expect-error there is no such notification
export const none: EngineObserver = { onNothing: () => undefined }

// A server has a backend with a policy, engines, or a directory.
void createServer({ ...parts, backend, policy })
void createServer({ ...parts, engines: { tiny: client } })
// @ts-expect-error without an engine there is no server
void createServer(parts)
// @ts-expect-error a server needs transports
void createServer({ engines: { tiny: client } })

// Errors have a code of the table.
same<CllmError['code'], ErrorCode>()
void new CllmError('not_found', 'no such path')
// @ts-expect-error no such code
void new CllmError('lost', 'no such code')

// Suites take a runner's context and a way to make what they test.
void testBackend(t, () => backend, { exact: false })
void testPolicy(t, () => policy, { runs: 1, maxOvertaking: (ahead, { slots }) => ahead * slots })
void testOrder(t, patient, [])
void testEngineClient(t, 'mine', async () => ({ client, dispose: () => undefined }))
void testProtocol(t, async () => await Promise.reject(new Error('none')), {
  request: (prompt, maxTokens, stream) => {
    same<[typeof prompt, typeof maxTokens, typeof stream], [string, number, boolean]>()
    return undefined
  },
})
// @ts-expect-error the suite makes a new policy for each load
void testPolicy(t, policy)
// @ts-expect-error a batching is tested with orders
void testBatching(t, patient, [])
// @ts-expect-error what it is called comes first
void testEngineClient(t, () => ({ client }))
