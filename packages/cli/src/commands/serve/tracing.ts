import {
  goesOn,
  type KoaProtocol,
  type ObservedRequest,
  type RequestObserver,
  type RequestWatch,
} from '@cllm/http-koa'
import {
  context,
  propagation,
  ROOT_CONTEXT,
  type Attributes,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node'
import { type Clock, defined, type GenerateEvent, type GenerateRequest } from '@cllm/core'

/** Sends spans of requests to a collector. */
export interface Tracing {
  /** Must be the first of a transport's protocols. */
  readonly protocol: KoaProtocol
  /** Sends the remaining spans; spans that the collector does not accept are lost. */
  shutdown(): Promise<void>
}

/**
 * Sends a span for each request to a collector that accepts OTLP over HTTP. Continues the client's
 * trace if the request has a `traceparent` (W3C Trace Context). OpenTelemetry's other variables
 * apply, such as `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_RESOURCE_ATTRIBUTES` and
 * `OTEL_TRACES_SAMPLER`.
 *
 * @param endpoint - the collector's base URL, such as `http://127.0.0.1:4318`
 */
export function startTracing(endpoint: string): Tracing {
  const exporter = new OTLPTraceExporter({ url: `${endpoint.replace(/\/+$/, '')}/v1/traces` })
  const named = resourceFromAttributes({ 'service.name': 'cllm' })
  const provider = new NodeTracerProvider({
    resource: named.merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  })
  // Gives each request its own context, and reads `traceparent`.
  provider.register()
  return {
    protocol: {
      name: 'tracing',
      observe: ({ clock }) => new RequestSpans(provider.getTracer('cllm'), clock),
      async within(headers, handle) {
        await context.with(propagation.extract(ROOT_CONTEXT, headers), handle)
      },
    },
    async shutdown() {
      await provider.shutdown().catch(() => {})
    },
  }
}

/**
 * Creates a span per request by OpenTelemetry's conventions for generative AI, with a child span
 * per phase. Spans contain no text of prompts, answers or errors.
 */
class RequestSpans implements RequestObserver {
  constructor(
    private readonly tracer: Tracer,
    private readonly clock: Clock,
  ) {}

  onSubmit({ model, request, at: arrivedAt }: ObservedRequest): RequestWatch {
    // One offset for the whole span: setting the machine's clock meanwhile must not change a duration.
    const aheadMs = this.clock.wall() - this.clock.now()
    const at = arrivedAt + aheadMs
    const operation = 'messages' in request.prompt ? 'chat' : 'text_completion'
    const span = this.tracer.startSpan(`${operation} ${model}`, {
      kind: SpanKind.SERVER,
      startTime: at,
      attributes: {
        'gen_ai.operation.name': operation,
        'gen_ai.provider.name': 'cllm',
        'gen_ai.request.model': model,
        'gen_ai.response.model': model,
        ...asked(request),
      },
    })
    let firstTokenAt: number | undefined
    return {
      onEvent: (event, now) => {
        if (event.type === 'token' && firstTokenAt === undefined) {
          firstTokenAt = now + aheadMs
          span.setAttribute('gen_ai.server.time_to_first_token', (firstTokenAt - at) / 1000)
        } else if (event.type === 'start') {
          span.setAttribute('gen_ai.response.id', event.id)
          span.setAttribute('gen_ai.usage.input_tokens', event.promptTokens)
        } else if (event.type === 'end') this.#whole(span, event, at)
      },
      onEnd: (now, error) => {
        if (error !== undefined) {
          if (error !== goesOn) {
            span.setAttribute('error.type', error.code)
            span.setStatus({ code: SpanStatusCode.ERROR })
          }
          if (firstTokenAt !== undefined) this.#phase(span, 'decode', firstTokenAt, now + aheadMs)
        }
        span.end(now + aheadMs)
      },
    }
  }

  #whole(span: Span, end: Extract<GenerateEvent, { type: 'end' }>, at: number): void {
    const { usage, timings, reason } = end
    span.setAttributes({
      'gen_ai.usage.output_tokens': usage.generatedTokens,
      'gen_ai.usage.cache_read.input_tokens': usage.cachedTokens,
      'gen_ai.response.finish_reasons': [reason],
      'cllm.preemptions': timings.preemptions,
      'cllm.prefill_chunks': timings.prefillChunks,
    })
    let begin = at
    for (const [name, ms] of [
      ['queue', timings.queueMs],
      ['prefill', timings.prefillMs],
      ['decode', timings.decodeMs],
    ] as const) {
      this.#phase(span, name, begin, begin + ms)
      begin += ms
    }
  }

  #phase(parent: Span, name: string, startTime: number, endTime: number): void {
    const inParent = trace.setSpan(context.active(), parent)
    this.tracer.startSpan(name, { startTime }, inParent).end(endTime)
  }
}

const asked = ({ maxTokens, sampling = {} }: GenerateRequest): Attributes =>
  defined({
    'gen_ai.request.max_tokens': maxTokens,
    'gen_ai.request.temperature': sampling.temperature,
    'gen_ai.request.top_p': sampling.topP,
    'gen_ai.request.top_k': sampling.topK,
    'gen_ai.request.frequency_penalty': sampling.frequencyPenalty,
    'gen_ai.request.presence_penalty': sampling.presencePenalty,
    'gen_ai.request.seed': sampling.seed,
  })
