import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import type { EngineObserver } from '../../contracts/engine/engine-observer.js'
import type { Logger } from '../../contracts/logger.js'
import type { Drafter, Proposer } from '../../contracts/model/proposer.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import type { Plan } from '../../contracts/scheduling/scheduler-policy.js'
import * as tokens from '../../tokens.js'
import type { EngineCosts } from '../costs/engine-costs.js'
import type { EngineOptions } from '../engine-options.js'
import type { RunningSet } from '../requests/running-set.js'
import type { Sequence } from '../requests/sequence.js'
import { EngineAcceptance, SequenceAcceptance } from './acceptance.js'
import { chooseDrafts } from './choose-drafts.js'
import type { ProposerCatalog } from './proposer-catalog.js'
import { SequenceDrafts } from './sequence-drafts.js'

/** Gives sequences their drafts, where the engine speculates and the request does not forbid it. */
@injectable()
export class Speculator implements EngineObserver {
  readonly #proposer: Proposer | undefined
  readonly #acceptance = new EngineAcceptance()
  readonly #isUsable: (token: TokenId) => boolean
  #hasFailed = false

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.TOKENIZER) tokenizer: Tokenizer,
    @inject(tokens.PROPOSERS) proposers: ProposerCatalog,
    @inject(tokens.ENGINE_OPTIONS) { speculative }: EngineOptions,
    @inject(tokens.ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(tokens.LOGGER) private readonly logger: Logger,
  ) {
    this.#proposer = proposers.create(speculative)
    if (this.#proposer !== undefined && backend.capabilities.drafts !== true) {
      this.#proposer = undefined
      if (speculative !== 'auto') {
        logger.warn({ speculative }, 'no speculation: this model cannot verify drafts')
      }
    }
    const { vocabularySize } = backend.model
    // What follows an end is never wanted, and constraints know no token there.
    this.#isUsable = (token) =>
      Number.isInteger(token) &&
      token >= 0 &&
      token < vocabularySize &&
      !tokenizer.isEndOfGeneration(token)
  }

  /** The plan with drafts, where the policy leaves them to the engine and the step only decodes. */
  complete(plan: Plan, running: RunningSet): Plan {
    if (this.#proposer === undefined) return plan
    const decoding: Sequence[] = []
    for (const { id, drafts } of plan.run) {
      const sequence = running.get(id)
      if (drafts !== undefined || sequence?.state !== 'decoding') return plan
      decoding.push(sequence)
    }
    const chosen = chooseDrafts(decoding, this.costs.steps, this.backend.limits)
    if (!chosen.some((drafts) => drafts > 0)) return plan
    return { ...plan, run: plan.run.map((entry, index) => ({ ...entry, drafts: chosen[index]! })) }
  }

  onAdmitted(sequence: Sequence): void {
    if (this.#proposer === undefined || !sequence.request.speculative) return
    if (sequence.drafts !== undefined) return
    const drafter = this.#begin(this.#proposer)
    const acceptance = new SequenceAcceptance(this.#acceptance)
    sequence.drafts = new SequenceDrafts(drafter, acceptance, this.#isUsable)
  }

  /** A drafter whose failures mean that it guesses nothing; the first of an engine is logged. */
  #begin(proposer: Proposer): Drafter {
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
    drafter = attempt(() => proposer.begin(), undefined)
    const nothing = { tokens: [] }
    return {
      propose: (tokens, most) =>
        attempt(() => {
          const proposal = drafter?.propose(tokens, most) ?? nothing
          return Array.isArray(proposal.tokens) ? proposal : nothing
        }, nothing),
    }
  }
}
