import type { EngineStatistics } from '@cllm/core'
import { ratio, sum } from '../../request/usage.js'

/**
 * The figures of all models together under llama-server's names, for its dashboards.
 *
 * @param models - also those that are not in memory now, with what they had counted
 * @param embedded - what was embedded, which it counts as prompts
 */
export function llamaServerMetrics(
  models: readonly EngineStatistics[],
  embedded: { readonly tokens: number; readonly inputs: number },
): string {
  const all = (of: (model: EngineStatistics) => number): number => sum(models.map(of))
  const steps = all((model) => model.steps)
  const predicted = all((model) => model.generatedTokens)
  const promptSeconds = all((model) => model.prefillMs / 1000)
  const predictedSeconds = all((model) => (model.decodeMs - model.prefillMs) / 1000)
  const prompt = all((model) => model.promptTokens - model.cachedTokens)
  // prompts that run still, or were computed twice, have taken time, too
  const computed = all((model) => model.prefillTokens)
  const busy = all((model) => model.stepSequences.sum)
  const longest = models.flatMap(({ slots }) => slots.map(({ tokens }) => tokens))
  const drafts = all(({ speculation }) => speculation?.drafts ?? 0)
  const drafted = all(({ speculation }) => speculation?.draftTokens ?? 0)
  const accepted = all(({ speculation }) => speculation?.acceptedTokens ?? 0)
  const figures: [name: string, help: string, value: number][] = [
    ['prompt_tokens_total', 'Prompt tokens computed.', prompt + embedded.tokens],
    ['prompt_tokens_cached_total', 'Prompt tokens used again.', all((one) => one.cachedTokens)],
    ['prompt_seconds_total', "Prompts' share of the passes.", promptSeconds],
    ['tokens_predicted_total', 'Generated tokens.', predicted],
    ['tokens_predicted_seconds_total', "Generation's share of the passes.", predictedSeconds],
    ['n_decode_total', 'Forward passes.', steps + embedded.inputs],
    ['n_tokens_max', 'Most tokens in a slot now.', Math.max(0, ...longest)],
    ['spec_decode_num_drafts_total', 'Drafts that were verified.', drafts],
    ['spec_decode_num_draft_tokens_total', 'Draft tokens that were verified.', drafted],
    ['spec_decode_num_accepted_tokens_total', 'Those drawn.', accepted],
    ['prompt_tokens_seconds', 'Prompt tokens per second.', ratio(computed, promptSeconds)],
    [
      'predicted_tokens_seconds',
      'Generated tokens per second.',
      ratio(predicted, predictedSeconds),
    ],
    ['requests_processing', 'Requests in slots.', all((model) => model.running)],
    ['requests_deferred', 'Requests that wait.', all((model) => model.waiting)],
    ['n_busy_slots_per_decode', 'Mean busy slots of a pass.', ratio(busy, steps)],
  ]
  return figures
    .map(([name, help, value]) => {
      const full = `llamacpp:${name}`
      const type = /_total$|^n_tokens_max$/.test(name) ? 'counter' : 'gauge'
      return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${full} ${value}\n`
    })
    .join('')
}
