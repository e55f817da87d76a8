import { loadMetrics, metricTable } from '@cllm/http-koa'

const intro = `# Metrics

<!-- Generated from the metric table of @cllm/http-koa by \`pnpm run docs\`; do not edit. -->

\`GET /metrics\` answers in Prometheus' text format; with API keys it needs an admin key. Names and buckets are vLLM's
where the meaning is the same, with the prefix \`cllm_\`. Times are seconds. Every metric has the label \`model_name\`;
histograms of requests have \`policy\`. Counters continue when an engine restarts or a model is loaded again. While no
request runs:

- \`cllm_prompt_tokens_total\` and \`cllm_generation_tokens_total\` are the usage of all answers;
- \`cllm_request_success_total\`, \`cllm_requests_total{outcome="done"}\` and
  \`cllm_e2e_request_latency_seconds_count\` are equal;
- queue, prefill and decode time add up to arrival to last token;
- \`cllm_iteration_tokens_total_sum\` is the sum of \`cllm_step_tokens_total\`.

\`GET /metrics/load\` needs no key and has only ${loadMetrics.map((name) => `\`${name}\``).join(', ')},
for endpoint pickers and autoscalers ([cluster.md](cluster.md#kubernetes)). It asks an engine at most every 20 ms, workers
every 250 ms.

A Grafana dashboard is in \`deploy/grafana/cllm.json\`.
`

/** The text of `docs/metrics.md`. */
export const renderMetricsDocs = (): string => {
  const rows = Object.entries(metricTable).map(([name, { type, help, labels = [] }]) => {
    const more = labels.map((label) => `, \`${label}\``).join('')
    return `- \`${name}\` (${type}${more}): ${help}`
  })
  return `${intro}
Each metric with its type and further labels:

${rows.join('\n')}
`
}
