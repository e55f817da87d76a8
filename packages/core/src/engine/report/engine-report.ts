import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import type { Clock } from '../../contracts/clock.js'
import type { EngineCapabilities, EngineInfo } from '../../contracts/engine/engine-client.js'
import type { EngineStatistics } from '../../contracts/engine/engine-statistics.js'
import type { RequestReport } from '../../contracts/engine/request-report.js'
import type { Tokenizer } from '../../contracts/model/tokenizer.js'
import { defined } from '../../defined.js'
import * as tokens from '../../tokens.js'
import { AdapterTable } from '../features/adapters.js'
import { ENGINE_OPTIONS, type EngineOptions } from '../engine-options.js'
import { WAIT_PREDICTOR, type WaitPredictor } from '../engine-parts.js'
import { MakeWay } from '../features/make-way.js'
import { PolicyRunner } from '../loop/policy-runner.js'
import { RequestTable } from '../requests/request-table.js'
import { Speculator } from '../speculation/speculator.js'
import { Counters } from './counters.js'
import { RequestTracker } from './request-tracker.js'

/** What an engine tells of itself and of its requests. */
@injectable()
export class EngineReport {
  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.TOKENIZER) private readonly tokenizer: Tokenizer,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(ENGINE_OPTIONS) private readonly options: EngineOptions,
    @inject(WAIT_PREDICTOR) private readonly predictor: WaitPredictor,
    @inject(RequestTable) private readonly table: RequestTable,
    @inject(PolicyRunner) private readonly policy: PolicyRunner,
    @inject(AdapterTable) private readonly adapters: AdapterTable,
    @inject(Speculator) private readonly speculator: Speculator,
    @inject(MakeWay) private readonly makeWay: MakeWay,
    @inject(Counters) private readonly counters: Counters,
    @inject(RequestTracker) private readonly tracker: RequestTracker,
  ) {}

  /** What it serves; the model with the sampling that requests get for what they leave out. */
  info(): EngineInfo {
    const { model: own, limits } = this.backend
    const sampling = { ...own.sampling, ...this.options.sampling }
    const model = Object.keys(sampling).length === 0 ? own : { ...own, sampling }
    const { infill } = this.tokenizer
    const { draftModel } = this.speculator
    const more = defined({ infill, adapters: this.adapters.known, draftModel })
    return { model, limits, capabilities: capabilitiesOf(this.backend), ...more }
  }

  /** Counters and what is going on now. */
  statistics(): EngineStatistics {
    return {
      ...this.table.statistics(),
      waitMs: this.predictor.waitMs(this.table.waiting.total, this.clock.now()),
      policyFaults: this.policy.faults,
      interruptedSteps: this.makeWay.interruptedSteps,
      ...this.counters.snapshot(),
    }
  }

  /** What happened to a request that is under way or was one of the last that ended. */
  explain(id: string): RequestReport | undefined {
    const report = this.tracker.find(id)
    const queuePosition = this.table.waiting.placeOf(id)
    return report && { ...report, ...defined({ queuePosition }) }
  }
}

/** In an order of its own, as clients are shown it. */
function capabilitiesOf(backend: Backend): EngineCapabilities {
  const { capabilities: own } = backend
  const { generates, drawLogprobs, promptLogprobs, samplers, drafts } = own
  return {
    ...defined({ generates }),
    grammar: backend.checkConstraint !== undefined,
    logprobs: own.logprobs,
    ...defined({ drawLogprobs, promptLogprobs }),
    embeddings: backend.embed !== undefined,
    lora: backend.adapters !== undefined,
    ...defined({ samplers, drafts }),
    contextShift: backend.shift !== undefined,
    gpu: own.gpu,
  }
}
