import type { EngineStatistics } from '@cllm/core'
import { sum } from '../../request/usage.js'

const ratio = (value: number, by: number): number => (by > 0 ? value / by : 0)

function metric(type: string, name: string, help: string, value: number): string {
  const full = `llamacpp:${name}`
  return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${full} ${value}\n`
}

const counter = (name: string, help: string, value: number) => metric('counter', name, help, value)
const gauge = (name: string, help: string, value: number) => metric('gauge', name, help, value)

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
  const prompt = all(({ promptTokens, cachedTokens }) => promptTokens - cachedTokens)
  const cached = all(({ cachedTokens }) => cachedTokens)
  const predicted = all(({ generatedTokens }) => generatedTokens)
  const steps = all((model) => model.steps)
  const longest = Math.max(0, ...models.flatMap(({ slots }) => slots.map(({ tokens }) => tokens)))
  const promptSeconds = all(({ prefillMs }) => prefillMs / 1000)
  const predictedSeconds = all(({ decodeMs, prefillMs }) => (decodeMs - prefillMs) / 1000)
  const drafts = all(({ speculation }) => speculation?.drafts ?? 0)
  const drafted = all(({ speculation }) => speculation?.draftTokens ?? 0)
  const accepted = all(({ speculation }) => speculation?.acceptedTokens ?? 0)
  // prompts that run still, or were computed twice, have taken time, too
  const promptSpeed = ratio(
    all(({ prefillTokens }) => prefillTokens),
    promptSeconds,
  )
  const predictedSpeed = ratio(predicted, predictedSeconds)
  const busySlots = ratio(
    all(({ stepSequences }) => stepSequences.sum),
    steps,
  )
  return [
    counter('prompt_tokens_total', 'Prompt tokens computed.', prompt + embedded.tokens),
    counter('prompt_tokens_cached_total', 'Prompt tokens used again.', cached),
    counter('prompt_seconds_total', "Prompts' share of the passes.", promptSeconds),
    counter('tokens_predicted_total', 'Generated tokens.', predicted),
    counter(
      'tokens_predicted_seconds_total',
      "Generation's share of the passes.",
      predictedSeconds,
    ),
    counter('n_decode_total', 'Forward passes.', steps + embedded.inputs),
    counter('n_tokens_max', 'Most tokens in a slot now.', longest),
    counter('spec_decode_num_drafts_total', 'Drafts that were verified.', drafts),
    counter('spec_decode_num_draft_tokens_total', 'Their tokens.', drafted),
    counter('spec_decode_num_accepted_tokens_total', 'Those drawn.', accepted),
    gauge('prompt_tokens_seconds', 'Prompt tokens per second.', promptSpeed),
    gauge('predicted_tokens_seconds', 'Generated tokens per second.', predictedSpeed),
    gauge(
      'requests_processing',
      'Requests in slots.',
      all(({ running }) => running),
    ),
    gauge(
      'requests_deferred',
      'Requests that wait.',
      all(({ waiting }) => waiting),
    ),
    gauge('n_busy_slots_per_decode', 'Mean busy slots of a pass.', busySlots),
  ].join('')
}
