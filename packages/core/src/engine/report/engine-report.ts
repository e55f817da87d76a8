import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import type { EngineCapabilities, EngineInfo } from '../../contracts/engine/engine-client.js'
import type { EngineStatistics } from '../../contracts/engine/engine-statistics.js'
import type { RequestReport, WaitReason } from '../../contracts/engine/request-report.js'
import { defined } from '../../defined.js'
import { AdapterTable } from '../features/adapters.js'
import { WAIT_PREDICTOR, type WaitPredictor } from '../engine-parts.js'
import type { EncodeOwner } from '../input/encode-lane.js'
import { InputContext } from '../input/resolve-request.js'
import { MakeWay } from '../features/make-way.js'
import { PolicyRunner } from '../loop/policy-runner.js'
import { Partings } from '../programs/partings.js'
import { RequestTable } from '../requests/request-table.js'
import { Speculator } from '../speculation/speculator.js'
import { Counters } from './counters.js'
import { RequestTracker } from './request-tracker.js'

/** What an engine tells of itself and of its requests. */
@injectable()
export class EngineReport {
  constructor(
    @inject(InputContext) private readonly context: InputContext,
    @inject(WAIT_PREDICTOR) private readonly predictor: WaitPredictor,
    @inject(RequestTable) private readonly table: RequestTable,
    @inject(PolicyRunner) private readonly policy: PolicyRunner,
    @inject(AdapterTable) private readonly adapters: AdapterTable,
    @inject(Speculator) private readonly speculator: Speculator,
    @inject(MakeWay) private readonly makeWay: MakeWay,
    @inject(Counters) private readonly counters: Counters,
    @inject(RequestTracker) private readonly tracker: RequestTracker,
    @inject(Partings) private readonly partings: Partings,
  ) {}

  /** What it serves; the model with the sampling that requests get for what they leave out. */
  info(): EngineInfo {
    const { backend, options, tokenizer } = this.context
    const { model: own, limits } = backend
    const sampling = { ...own.sampling, ...options.sampling }
    const model = Object.keys(sampling).length === 0 ? own : { ...own, sampling }
    const { infill } = tokenizer
    const { draftModel } = this.speculator
    const more = defined({ infill, adapters: this.adapters.known, draftModel })
    return { model, limits, capabilities: capabilitiesOf(backend), ...more }
  }

  /** Counters and what is going on now. */
  statistics(): EngineStatistics {
    const { clock, lane } = this.context
    return {
      ...this.table.statistics(),
      waitMs: this.predictor.waitMs(this.table.waiting.total, clock.now()),
      policyFaults: this.policy.faults,
      interruptedSteps: this.makeWay.interruptedSteps,
      partings: this.partings.counts,
      ...defined({ encodes: lane.statistics() }),
      ...this.counters.snapshot(),
    }
  }

  /** What happened to a request that is under way or was one of the last that ended. */
  explain(id: string): RequestReport | undefined {
    const { lane, clock } = this.context
    const encoding = lane.requests().find((one) => one.id === id)
    if (encoding !== undefined) {
      return reportOfEncoding(encoding, lane.waited(encoding), clock.now())
    }
    const report = this.tracker.find(id)
    const queuePosition = this.table.waiting.placeOf(id)
    return report && { ...report, ...defined({ queuePosition }) }
  }
}

/** Of a request that has no prompt yet. */
function reportOfEncoding(
  { id, arrival, priority, tenant, session, since }: EncodeOwner,
  reasons: Partial<Record<WaitReason, number>>,
  now: number,
): RequestReport {
  const queueMs = now - arrival
  return {
    id,
    state: 'encoding',
    arrival,
    priority,
    tenant,
    ...defined({ session }),
    usage: { promptTokens: 0, cachedTokens: 0, generatedTokens: 0 },
    timings: {
      queueMs,
      firstTokenMs: queueMs,
      totalMs: queueMs,
      preemptions: 0,
      prefillChunks: 0,
      prefillMs: 0,
      decodeMs: 0,
    },
    timeline: [{ type: 'waited', atMs: since - arrival, untilMs: queueMs, reasons }],
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
