import { type CllmError, defined, type GenerateEvent, type GenerateRequest } from '@cllm/core'
import type { ObservedRequest, RequestObserver, RequestWatch } from '@cllm/http-koa'
import {
  type Attributes,
  context,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api'

/**
 * Creates a span per request by OpenTelemetry's conventions for generative AI, with a child span
 * per phase. Spans contain no text of prompts, answers or errors.
 */
export class RequestSpans implements RequestObserver {
  constructor(private readonly tracer: Tracer) {}

  onSubmit({ model, request, at }: ObservedRequest): RequestWatch {
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
          firstTokenAt = now
          span.setAttribute('gen_ai.server.time_to_first_token', (now - at) / 1000)
        } else if (event.type === 'start') {
          span.setAttribute('gen_ai.response.id', event.id)
          span.setAttribute('gen_ai.usage.input_tokens', event.promptTokens)
        } else if (event.type === 'end') this.#whole(span, event, at)
      },
      onEnd: (now, error) => {
        if (error !== undefined) this.#failed(span, error, firstTokenAt, now)
        span.end(now)
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

  #failed(span: Span, error: CllmError, firstTokenAt: number | undefined, now: number): void {
    span.setAttribute('error.type', error.code)
    span.setStatus({ code: SpanStatusCode.ERROR })
    if (firstTokenAt !== undefined) this.#phase(span, 'decode', firstTokenAt, now)
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
