import { loadMetrics, metricTable } from '@cllm/http-koa'

const intro = `# Metrics

<!-- Generated from the metric table of @cllm/http-koa by \`pnpm run docs\`; do not edit. -->

\`GET /metrics\` answers in Prometheus' text format; with API keys it needs the role \`metrics\` or \`admin\`. Names and
buckets are vLLM's where the meaning is the same, behind \`cllm_\`. Times are seconds. Every metric has the label
\`model_name\`; histograms of requests have \`policy\`; further labels stand in parentheses. Counters continue when an
engine restarts or a model is loaded again. While no request runs, \`cllm_prompt_tokens_total\` and
\`cllm_generation_tokens_total\` are the usage of all uninterrupted answers, and queue, prefill and decode time add up to
arrival to last token.

\`GET /metrics/load\` needs no key and has only ${loadMetrics.map((name) => `\`${name}\``).join(', ')},
for endpoint pickers and autoscalers ([cluster.md](cluster.md#kubernetes)). It asks an engine at most every 20 ms, workers
every 250 ms.

Dashboard: \`deploy/grafana\`; scrape config and alerts: \`deploy/prometheus\`.
`

/** The text of `docs/metrics.md`. */
export const renderMetricsDocs = (): string => {
  const metrics = Object.entries(metricTable)
  const rowsOf = (type: string) =>
    metrics
      .filter(([, metric]) => metric.type === type)
      .map(([name, { help, labels = [] }]) => {
        const more = labels.filter((label) => type !== 'histogram' || label !== 'policy')
        const listed = more.map((label) => `\`${label}\``).join(', ')
        return `- \`${name}\`${listed && ` (${listed})`}: ${help}\n`
      })
  const section = (type: string) =>
    `\n## ${type[0]?.toUpperCase()}${type.slice(1)}s\n\n${rowsOf(type).join('')}`
  return `${intro}${['gauge', 'counter', 'histogram'].map(section).join('')}`
}
