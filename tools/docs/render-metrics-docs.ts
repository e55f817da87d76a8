import { loadMetrics, metricTable } from '@cllm/http-koa'

const intro = `# Metrics

<!-- Generated from the metric table of @cllm/http-koa by \`pnpm run docs\`; do not edit. -->

\`GET /metrics\` answers in Prometheus' text format; with API keys, it requires a key with the admin
role. If vLLM has a metric with the same meaning, the name is vLLM's with the prefix \`cllm_\`, and the
buckets are vLLM's. Times are in seconds. Every metric has the label \`model_name\`, and histograms of
requests have the label \`policy\`, the policy in force when the request arrived.

The server keeps an engine's counters, so they continue when the engine's process is replaced, and when
the model leaves memory and is loaded again. A scrape changes nothing, so any number of scrapers can
read at a time. Counted from the start of the server, these sums hold whenever no request is running:

- \`cllm_prompt_tokens_total\` and \`cllm_generation_tokens_total\` are the sums of the usage in all
  answers, including answers that were cut off; without these, they are the sums of
  \`cllm_request_prompt_tokens\` and \`cllm_request_generation_tokens\`;
- \`cllm_request_success_total\`, \`cllm_requests_total{outcome="done"}\` and
  \`cllm_e2e_request_latency_seconds_count\` are the same number;
- queue, prefill and decode time of a request add up to its time from arrival to last token;
- \`cllm_iteration_tokens_total_sum\` is the sum of \`cllm_step_tokens_total\`, and every step is in each
  of the step histograms once.

\`GET /metrics/load\` has ${loadMetrics.map((name) => `\`${name}\``).join(', ')}
alone and needs no key, for endpoint pickers and autoscalers (see [cluster.md](cluster.md#kubernetes)). It tells the
names of loaded models and how busy they are, and nothing else. It may be asked as often as anyone likes: an engine is asked
once in 20 ms at most, workers once in 250 ms, and an engine that does not answer keeps the values that it had.

A Grafana dashboard is in \`deploy/grafana/cllm.json\`.
`

const cell = (text: string) => text.replaceAll('|', '\\|')

/** The text of `docs/metrics.md`. */
export const renderMetricsDocs = (): string => {
  const rows = Object.entries(metricTable).map(([name, { type, help, labels = [] }]) => {
    const more = labels.map((label) => `\`${label}\``).join(', ')
    return `| \`${name}\` | ${type} | ${more} | ${cell(help)} |`
  })
  return `${intro}
| name | type | further labels | meaning |
|---|---|---|---|
${rows.join('\n')}
`
}
