import type { ModelDecision, ModelScheduler, ModelView } from '../contracts/scheduling/decisions.js'
import type { Logger } from '../contracts/services.js'
import { CllmError } from '../errors/cllm-error.js'
import { shown, synchronous } from '../plugin/checks.js'
import { defineModelScheduler } from '../contracts/plugin.js'

const scheduler: ModelScheduler = {
  decide(models) {
    const wanted = models.find(({ state, waiting }) => state === 'unloaded' && waiting.length > 0)
    if (wanted === undefined) return { holdMs: Infinity }
    if (wanted.fits) return { load: wanted.name }
    const present = models.filter(({ state }) => state === 'loaded')
    const idle = present.filter(({ users }) => users === 0)
    const [victim] = (idle.length > 0 ? idle : present).toSorted((a, b) => a.lastUsed - b.lastUsed)
    if (victim === undefined) return { holdMs: Infinity }
    return victim.users === 0 ? { unload: victim.name } : { drain: victim.name }
  },
}

/** The model scheduler that pools have where none is named, and in place of one that fails. */
export const lru = defineModelScheduler({
  name: 'lru',
  doc: 'The model that is waited for longest comes next, and the least recently used one leaves, when its last use ends if need be.',
  create: () => scheduler,
})

/** Checks another scheduler's decisions: after the first one that throws or is invalid, `lru` decides. */
export class CheckedModelScheduler implements ModelScheduler {
  constructor(
    private readonly name: string,
    private chosen: ModelScheduler,
    private readonly logger: Logger,
  ) {}

  /** The decision of the chosen scheduler, or of `lru` if that fails. */
  decide(models: readonly ModelView[], now: number): ModelDecision {
    try {
      const decision = this.chosen.decide(models, now)
      checkModelDecision(decision, models)
      return decision
    } catch (error) {
      const what = `the model scheduler "${this.name}" failed: lru decides from now on`
      this.logger.error({ err: error }, what)
      this.chosen = scheduler
      return scheduler.decide(models, now)
    }
  }
}

/**
 * Checks that a decision can be carried out.
 *
 * @throws `policy_failed` that says what is wrong with it; TypeError for a promise
 */
export function checkModelDecision(decision: ModelDecision, models: readonly ModelView[]): void {
  const expect = (name: string, expected: string, isRight: (model: ModelView) => boolean): void => {
    if (models.some((model) => model.name === name && isRight(model))) return
    const message = `model scheduler: expected ${expected}, instead got ${shown(decision)}`
    throw new CllmError('policy_failed', message)
  }
  if (typeof synchronous(decision, 'decide') !== 'object' || decision === null) {
    return expect('', 'an object', () => false)
  }
  const isLoaded = ({ state }: ModelView) => state === 'loaded'
  if ('load' in decision) {
    expect(decision.load, 'an unloaded model that is waited for and fits', (model) => {
      return model.state === 'unloaded' && model.waiting.length > 0 && model.fits
    })
  } else if ('unload' in decision) {
    const isUnused = (model: ModelView) => isLoaded(model) && model.users === 0
    expect(decision.unload, 'a loaded model without users', isUnused)
  } else if ('drain' in decision) {
    // An unused one would be waited for without end: nothing of it can end.
    const isUsed = (model: ModelView) => isLoaded(model) && model.users > 0
    expect(decision.drain, 'a loaded model in use', isUsed)
  } else if (!(decision.holdMs > 0)) expect('', 'a time above 0', () => false)
}
