import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { FakeBackend } from '@cllm/testing'
import {
  goesOn,
  koaTransport,
  nativeProtocol,
  openAiProtocol,
  type RequestObserver,
} from '@cllm/http-koa'
import { createPolicy } from '@cllm/scheduler'
import { createServer } from 'cllm'
import { systemClock } from '@cllm/core'
import t from 'tap'
import { startTracing } from '../../src/commands/serve/tracing.js'

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

interface OtlpSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly Attribute[]
  readonly status: { readonly code: number }
}

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] }
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[]
  }[]
}

const values = (attributes: readonly Attribute[]) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

t.test('a span for each request, and none of its words', async (t) => {
  const exports: Export[] = []
  const paths = new Set<string | undefined>()
  const collector = createHttpServer((req, res) => {
    paths.add(req.url)
    void json(req).then((body) => {
      exports.push(body as Export)
      res.setHeader('content-type', 'application/json').end('{}')
    })
  })
  collector.listen(0, '127.0.0.1')
  await once(collector, 'listening')
  t.teardown(() => collector.close())
  const { port } = collector.address() as AddressInfo

  const tracing = startTracing(`http://127.0.0.1:${port}/`)
  const protocols = [tracing.protocol, nativeProtocol(), openAiProtocol()]
  const server = createServer({
    backend: new FakeBackend({ slots: 2 }),
    clock: { ...systemClock, wall: () => systemClock.now() + 3_600_000 },
    policy: createPolicy('adaptive+fcfs', {}),
    transports: [koaTransport({ port: 0, protocols })],
  })
  t.teardown(() => server.close())
  const [{ url } = { url: '' }] = await server.listen()
  const post = async (path: string, body: object, headers: Record<string, string> = {}) => {
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    await response.text()
    return response.status
  }
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
  const parent = '00f067aa0ba902b7'
  const traceparent = `00-${traceId}-${parent}-01`
  const messages = [{ role: 'user', content: 'yellowcanary' }]
  const chat = { messages, max_tokens: 5, temperature: 0.5, ignore_eos: true }
  t.equal(await post('/v1/chat/completions', chat, { traceparent }), 200)
  const plain = { prompt: 'yellowcanary', max_tokens: 2, ignore_eos: true }
  t.equal(await post('/generate', plain), 200)
  t.equal(await post('/generate', { prompt: 'yellowcanary '.repeat(900), max_tokens: 2 }), 400)
  const spansOf = tracing.protocol.observe!({ clock: systemClock } as never) as RequestObserver
  const at = systemClock.now()
  spansOf.onSubmit({ model: 'part', request: { prompt: { text: '' } }, at }).onEnd(at, goesOn)
  await tracing.shutdown()

  t.same([...paths], ['/v1/traces'])
  const resources = exports.flatMap(({ resourceSpans }) => resourceSpans)
  t.match(values(resources[0]!.resource.attributes), { 'service.name': 'cllm' })
  const spans = resources.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans))
  const roots = spans.filter(({ name }) => name.includes(' '))
  t.equal(roots.length, 4)
  t.equal(roots[3]?.status.code, 0, 'what goes on has not failed')
  const [first, second, failed] = roots as [OtlpSpan, OtlpSpan, OtlpSpan]
  t.match(first, { traceId, parentSpanId: parent, name: 'chat fake', kind: 2 })
  t.match(values(first.attributes), {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'cllm',
    'gen_ai.request.model': 'fake',
    'gen_ai.request.max_tokens': 5,
    'gen_ai.request.temperature': 0.5,
    'gen_ai.usage.output_tokens': 5,
    'gen_ai.usage.input_tokens': Number,
    'gen_ai.server.time_to_first_token': Number,
    'gen_ai.response.id': String,
    'gen_ai.response.finish_reasons': { values: [{ stringValue: 'length' }] },
  })
  t.match(second, { name: 'text_completion fake', parentSpanId: undefined })
  t.not(second.traceId, traceId)
  t.match(values(failed.attributes), { 'error.type': 'prompt_too_long' })
  t.equal(failed.status.code, 2)

  for (const root of [first, second]) {
    const aheadMs = Number(BigInt(root.startTimeUnixNano) / 1_000_000n) - systemClock.now()
    t.ok(Math.abs(aheadMs - 3_600_000) < 600_000, 'by the machine’s clock, which slept for an hour')
    const phases = spans.filter(({ parentSpanId }) => parentSpanId === root.spanId)
    t.same(
      phases.map(({ name }) => name),
      ['queue', 'prefill', 'decode'],
    )
    t.ok(phases.every((phase) => phase.traceId === root.traceId))
    const times = phases.flatMap((one) => [one.startTimeUnixNano, one.endTimeUnixNano].map(BigInt))
    const sorted = times.toSorted((a, b) => (a < b ? -1 : 1))
    t.same(times, sorted, 'one after the other')
    t.ok(times[0]! >= BigInt(root.startTimeUnixNano))
    t.ok(times.at(-1)! <= BigInt(root.endTimeUnixNano))
  }
  t.notMatch(JSON.stringify(exports), 'yellowcanary')
})
