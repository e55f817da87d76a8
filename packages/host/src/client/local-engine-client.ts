import type {
  Random,
  EngineClient,
  GenerateEvents,
  GenerateRequest,
  SubmitOptions,
  Engine,
  PluginRegistry,
} from '@cllm/core'
import { EngineControl } from './engine-control.js'
import { EventStreams, requestId } from '../remote/event-streams.js'

/** An engine in this process. */
export class LocalEngineClient extends EngineControl implements EngineClient {
  readonly #streams = new EventStreams()

  constructor(
    engine: Engine,
    registry: PluginRegistry,
    private readonly random: Random,
  ) {
    super(engine, registry)
    engine.observe({ onEvents: (events) => this.#streams.dispatch(events) })
  }

  submit(request: GenerateRequest, options: SubmitOptions = {}): GenerateEvents {
    const id = request.id ?? requestId(this.random)
    return this.#streams.open(id, options.signal, {
      submit: () => this.engine.submit(id, request),
      cancel: (reason) => this.engine.cancel(id, reason),
    })
  }

  cancel(id: string, reason?: string): void {
    this.engine.cancel(id, reason)
  }
}
