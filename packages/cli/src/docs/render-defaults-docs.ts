import { effectiveSampling, protocolDefaults } from '@cllm/http-koa'

/** The text of `docs/defaults.md`. */
export const renderDefaultsDocs = (): string => {
  const rows = Object.entries(protocolDefaults).map(([path, defaults]) => {
    const { temperature, topK, topP, minP, repetitionPenalty } = effectiveSampling(defaults)
    const { maxTokens } = defaults
    const most = Number.isFinite(maxTokens) ? maxTokens : 'what fits the slot'
    const cells = [`\`${path}\``, most, temperature, topK, topP, minP, repetitionPenalty]
    return `| ${cells.join(' | ')} |`
  })
  return `# Defaults of the protocols

<!-- Made from the table of defaults of @cllm/http-koa by \`pnpm run docs\`; do not edit. -->

What a request gets that does not say: each protocol's own documented defaults, but that penalties are
off everywhere. Settings under \`api.defaults\` take their place on every route.

| route | most tokens | temperature | top_k | top_p | min_p | repetition penalty |
|---|---|---|---|---|---|---|
${rows.join('\n')}
`
}
