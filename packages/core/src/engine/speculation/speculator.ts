import { inject, injectable } from 'tsyringe'
import { z } from 'zod'
import type { Backend, ModelInfo } from '../../contracts/model/backend.js'
import type { Clock, Logger } from '../../contracts/services.js'
import type { EngineObserver } from '../../contracts/engine/engine-observer.js'
import type { DraftedSequence, Drafter, Proposer } from '../../contracts/model/drawing.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import type { Plan } from '../../contracts/scheduling/scheduler-policy.js'
import { synchronous } from '../../plugin/checks.js'
import * as tokens from '../../tokens.js'
import { ENGINE_COSTS, type EngineCosts } from '../costs/engine-costs.js'
import { TrialPace } from '../costs/linear-fit.js'
import { ENGINE_OPTIONS, type EngineOptions } from '../engine-options.js'
import { RunningSet } from '../requests/request-sets.js'
import type { Sequence } from '../requests/sequence.js'
import {
  type DraftSource,
  EngineAcceptance,
  SequenceAcceptance,
  SequenceDrafts,
} from './sequence-drafts.js'
import { isToken } from '../input/check-request.js'
import { chooseDrafts, type GuessCosts } from './choose-drafts.js'
import {
  DRAFT_BACKEND,
  PROPOSERS,
  type DraftBackend,
  type ProposerCatalog,
  draftModelName,
  forcedText,
} from './proposers.js'
import { DraftModel, type WantedGuess } from './draft-model.js'

/** Drafts with a higher acceptance are tried even if they do not seem to pay, as only then their cost is measured. */
const likely = 0.8
/** The pace, in steps, of trials of the choice that does not seem to pay: with drafts or without. */
const trialPace = { first: 16, factor: 4, longest: 1024 }
/** Draft tokens of each request in a trial. */
const triedDrafts = 2

/** The prior acceptance of forced text: the model may write the same text with other tokens. */
const forcedShare = 0.9

/** Gives sequences their drafts, if the engine speculates and the request does not forbid it. */
@injectable()
export class Speculator implements EngineObserver {
  /** The acceptance of each proposer; the first one that has a draft is used. */
  readonly #proposers = new Map<Proposer, EngineAcceptance>()
  #model: DraftModel | undefined
  readonly #ofModel = new EngineAcceptance()
  readonly #isUsable: (token: TokenId) => boolean
  readonly #draftTrials = new TrialPace(trialPace)
  readonly #plainTrials = new TrialPace(trialPace)
  #hasFailed = false

  /** Whether there are drafts at all. */
  readonly isOn: boolean
  /** Whether drafting takes time: then {@link guess} must be called before a step with drafts. */
  readonly takesTime: boolean

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.TOKENIZER) tokenizer: Tokenizer,
    @inject(PROPOSERS) proposers: ProposerCatalog,
    @inject(DRAFT_BACKEND) { backend: draft }: DraftBackend,
    @inject(ENGINE_OPTIONS) { speculative, proposerOptions }: EngineOptions,
    @inject(ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(tokens.CLOCK) clock: Clock,
    @inject(tokens.LOGGER) private readonly logger: Logger,
    @inject(RunningSet) private readonly running: RunningSet,
  ) {
    const canVerify = backend.capabilities.drafts === true
    if (canVerify && speculative !== 'off') {
      this.#proposers.set(forcedText, new EngineAcceptance(forcedShare))
      if (speculative === draftModelName && draft !== undefined) {
        const share = draft.model.sizeBytes / Math.max(1, backend.model.sizeBytes)
        this.#model = new DraftModel(draft, clock, costs.steps, share)
      } else {
        const proposer = proposers.create(speculative, proposerOptions)
        if (proposer !== undefined && proposer !== forcedText)
          this.#proposers.set(proposer, new EngineAcceptance())
      }
    }
    this.takesTime = this.#model !== undefined
    this.isOn = this.#proposers.size > 0
    if (!canVerify && speculative !== 'auto' && speculative !== 'off') {
      logger.warn({ speculative }, 'no speculation: this model cannot verify drafts')
    }
    const { vocabularySize } = backend.model
    // Tokens behind an end are never wanted, and constraints allow none there.
    this.#isUsable = (token) =>
      isToken(token, vocabularySize) && !tokenizer.isEndOfGeneration(token)
  }

  /** The learned acceptances, in the order of the proposers. */
  learned(): unknown {
    return this.#acceptances().map((acceptance) => acceptance.learned())
  }

  /** Starts from what an equal part has learned; throws for anything else. */
  recall(learned: unknown): void {
    const all = this.#acceptances()
    const given = z.array(z.unknown()).length(all.length).parse(learned)
    for (const [index, acceptance] of all.entries()) acceptance.recall(given[index])
  }

  #acceptances(): EngineAcceptance[] {
    return [...this.#proposers.values(), this.#ofModel]
  }

  /** The draft model, if there is one. */
  get draftModel(): ModelInfo | undefined {
    return this.#model?.info
  }

  /** Adds drafts to a plan, if the policy leaves them to the engine and all requests of the step decode. */
  complete(plan: Plan): Plan {
    const decoding: Sequence[] = []
    for (const { id, drafts } of plan.run) {
      const sequence = this.running.get(id)
      if (drafts !== undefined || sequence?.state !== 'decoding') return plan
      decoding.push(sequence)
    }
    const costsOf = this.#model?.costsFor(decoding)
    const guessMs: GuessCosts = (indexes, count) => {
      const open = indexes.filter((index) => decoding[index]?.drafts?.isOpen)
      return open.length === 0 ? 0 : (costsOf?.(open, count) ?? 0)
    }
    const chosen = chooseDrafts(decoding, this.costs.steps, this.backend.limits, guessMs)
    if (!chosen.some((drafts) => drafts > 0)) {
      this.#plainTrials.onPaying()
      const isLikely = decoding.some(({ draft }) => (draft?.acceptance ?? 0) > likely)
      const isTrial = (this.#model !== undefined || isLikely) && this.#draftTrials.isDue()
      return isTrial ? this.#withTrial(plan, decoding) : plan
    }
    this.#draftTrials.onPaying()
    if (this.#plainTrials.isDue()) return plan
    return { ...plan, run: plan.run.map((entry, index) => ({ ...entry, drafts: chosen[index]! })) }
  }

  /**
   * The plan with a few draft tokens for all requests, to measure whether they pay. For all, since a step in which only
   * some requests verify drafts costs more.
   */
  #withTrial(plan: Plan, decoding: readonly Sequence[]): Plan {
    const { batchSize, outputs = batchSize } = this.backend.limits
    const spare = Math.floor(Math.min(batchSize, outputs) / decoding.length) - 1
    const drafts = Math.min(triedDrafts, spare)
    const run = plan.run.map((entry, index) => {
      return { ...entry, drafts: Math.min(drafts, decoding[index]!.draft?.tokens ?? 0) }
    })
    return { ...plan, run }
  }

  /** Has the draft model make the drafts that the plan verifies. If it fails, it is no longer used. */
  async guess({ run }: Plan): Promise<void> {
    const wanted: WantedGuess[] = []
    for (const { id, drafts = 0 } of run) {
      const sequence = this.running.get(id)
      const count = Math.min(drafts, sequence?.draft?.tokens ?? 0)
      if (sequence?.drafts?.isOpen === true && count > 0) wanted.push({ sequence, count })
    }
    if (wanted.length === 0 || this.#model === undefined) return
    let guesses: readonly (readonly TokenId[])[] = []
    try {
      guesses = await this.#model.guess(wanted)
    } catch (error) {
      this.logger.error({ err: error }, 'the draft model failed: no speculation from now on')
      this.#model = undefined
    }
    if (guesses.every(({ length }) => length === 0)) this.#draftTrials.retry()
    for (const [index, { sequence }] of wanted.entries()) {
      sequence.drafts?.give(sequence.tokens.length, guesses[index] ?? [])
    }
  }

  onAdmitted(sequence: Sequence): void {
    const { speculative, sampling } = sequence.request
    if (!speculative || sequence.drafts !== undefined) return
    const forced: DraftedSequence['forced'] = (tokens, most) =>
      sequence.sampler?.forced?.(tokens, most) ?? { tokens: [] }
    const drafted = sampling.constraint === undefined ? {} : { forced }
    const sources: DraftSource[] = []
    for (const [proposer, ofEngine] of this.#proposers) {
      const drafter = this.#begin(proposer, drafted)
      if (drafter === undefined) continue
      sources.push({ drafter, acceptance: new SequenceAcceptance(ofEngine) })
    }
    if (this.#model !== undefined) this.#ofModel.fade()
    else if (sources.length === 0) return
    // A draft model that has failed is not used, even by requests that began before.
    const late = this.#model && {
      acceptance: new SequenceAcceptance(this.#ofModel),
      longest: () => this.#model?.longest ?? 0,
    }
    sequence.drafts = new SequenceDrafts(sources, late, this.#isUsable)
  }

  /** A drafter whose errors count as "no draft"; the first error of an engine is logged. */
  #begin(proposer: Proposer, drafted: DraftedSequence): Drafter | undefined {
    let drafter: Drafter | undefined
    const attempt = <T>(call: () => T, otherwise: T): T => {
      try {
        return call()
      } catch (error) {
        if (!this.#hasFailed) this.logger.error({ err: error }, 'the proposer failed')
        this.#hasFailed = true
        drafter = undefined
        return otherwise
      }
    }
    drafter = attempt(() => synchronous(proposer.begin(drafted), 'begin'), undefined)
    if (drafter === undefined) return undefined
    const nothing = { tokens: [] }
    return {
      propose: (tokens, most) =>
        attempt(() => {
          const proposal = synchronous(drafter?.propose(tokens, most), 'propose') ?? nothing
          return Array.isArray(proposal.tokens) ? proposal : nothing
        }, nothing),
    }
  }
}
