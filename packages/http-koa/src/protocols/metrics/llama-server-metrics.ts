import type { EngineStatistics } from '@cllm/core'

type Sums = Readonly<
  Record<'prompt' | 'computed' | 'cached' | 'predicted' | 'steps' | 'longest' | 'busySlots', number>
> &
  Readonly<Record<'promptSeconds' | 'predictedSeconds' | 'running' | 'waiting', number>> &
  Readonly<Record<'drafts' | 'drafted' | 'accepted', number>>

interface Line {
  readonly name: string
  readonly type: 'counter' | 'gauge'
  readonly help: string
  readonly value: (sums: Sums) => number
}

const ratio = (value: number, by: number): number => (by > 0 ? value / by : 0)

const counter = (name: string, help: string, value: Line['value']): Line => ({
  name,
  type: 'counter',
  help,
  value,
})
const gauge = (name: string, help: string, value: Line['value']): Line => ({
  name,
  type: 'gauge',
  help,
  value,
})

const lines: readonly Line[] = [
  counter('prompt_tokens_total', 'Prompt tokens computed.', ({ prompt }) => prompt),
  counter('prompt_tokens_cached_total', 'Prompt tokens used again.', ({ cached }) => cached),
  counter('prompt_seconds_total', "Prompts' share of the passes.", (sums) => sums.promptSeconds),
  counter('tokens_predicted_total', 'Generated tokens.', ({ predicted }) => predicted),
  counter(
    'tokens_predicted_seconds_total',
    "Generation's share of the passes.",
    (sums) => sums.predictedSeconds,
  ),
  counter('n_decode_total', 'Forward passes.', ({ steps }) => steps),
  counter('n_tokens_max', 'Most tokens in a slot now.', ({ longest }) => longest),
  counter('spec_decode_num_drafts_total', 'Drafts that were verified.', ({ drafts }) => drafts),
  counter('spec_decode_num_draft_tokens_total', 'Their tokens.', ({ drafted }) => drafted),
  counter('spec_decode_num_accepted_tokens_total', 'Those drawn.', ({ accepted }) => accepted),
  gauge('prompt_tokens_seconds', 'Prompt tokens per second.', (sums) =>
    ratio(sums.computed, sums.promptSeconds),
  ),
  gauge('predicted_tokens_seconds', 'Generated tokens per second.', (sums) =>
    ratio(sums.predicted, sums.predictedSeconds),
  ),
  gauge('requests_processing', 'Requests in slots.', ({ running }) => running),
  gauge('requests_deferred', 'Requests that wait.', ({ waiting }) => waiting),
  gauge('n_busy_slots_per_decode', 'Mean busy slots of a pass.', ({ busySlots }) => busySlots),
]

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
  const known = sumOf(models)
  const prompt = known.prompt + embedded.tokens
  const sums = { ...known, prompt, steps: known.steps + embedded.inputs }
  return lines
    .map(({ name, type, help, value }) => {
      const full = `llamacpp:${name}`
      return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${full} ${value(sums)}\n`
    })
    .join('')
}

function sumOf(models: readonly EngineStatistics[]): Sums {
  const sum = (of: (model: EngineStatistics) => number) =>
    models.reduce((total, model) => total + of(model), 0)
  const steps = sum((model) => model.steps)
  return {
    prompt: sum(({ promptTokens, cachedTokens }) => promptTokens - cachedTokens),
    // prompts that run still, or were computed twice, have taken time, too
    computed: sum((model) => model.prefillTokens),
    cached: sum((model) => model.cachedTokens),
    predicted: sum((model) => model.generatedTokens),
    steps,
    longest: Math.max(0, ...models.flatMap(({ slots }) => slots.map(({ tokens }) => tokens))),
    busySlots: ratio(
      sum((model) => model.stepSequences.sum),
      steps,
    ),
    promptSeconds: sum(({ prefillMs }) => prefillMs / 1000),
    predictedSeconds: sum(({ decodeMs, prefillMs }) => (decodeMs - prefillMs) / 1000),
    running: sum((model) => model.running),
    waiting: sum((model) => model.waiting),
    drafts: sum((model) => model.speculation?.drafts ?? 0),
    drafted: sum((model) => model.speculation?.draftTokens ?? 0),
    accepted: sum((model) => model.speculation?.acceptedTokens ?? 0),
  }
}
