import { type KoaProtocol } from '@cllm/http-koa'
import { context, propagation, ROOT_CONTEXT } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node'
import { RequestSpans } from './request-spans.js'

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
  const spans = new RequestSpans(provider.getTracer('cllm'))
  return {
    protocol: {
      name: 'tracing',
      observe: () => spans,
      async within(headers, handle) {
        await context.with(propagation.extract(ROOT_CONTEXT, headers), handle)
      },
    },
    async shutdown() {
      await provider.shutdown().catch(() => {})
    },
  }
}
