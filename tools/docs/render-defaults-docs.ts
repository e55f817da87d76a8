import { readFileSync } from 'node:fs'
import { threadsFor } from '@cllm/backend-llamacpp'
import { defaultSampling } from '@cllm/core'
import { catalog } from '../../packages/cli/src/models/catalog/catalog.js'
import { protocolDefaults } from '@cllm/http-koa'

const threadRows = (): string => {
  const row = (mathCores: number, cores: number) => {
    const cells = [1, 2, 4].map((engines) => threadsFor(undefined, mathCores, { cores, engines }))
    return `| ${[mathCores, cores, ...cells].join(' | ')} |`
  }
  return [row(2, 2), row(4, 4), row(16, 16), row(8, 16)].join('\n')
}

const modelLines = (): string => {
  const groups = new Map<string, string[]>()
  for (const { name, sampling } of catalog) {
    if (sampling === undefined) continue
    const { temperature, topK, topP, repetitionPenalty } = sampling
    const fields = { temperature, top_k: topK, top_p: topP, repetition_penalty: repetitionPenalty }
    const values = Object.entries(fields)
      .flatMap(([field, value]) => (value === undefined ? [] : [`${field} ${value}`]))
      .join(', ')
    groups.set(values, [...(groups.get(values) ?? []), `\`${name}\``])
  }
  return [...groups].map(([values, names]) => `- ${values}: ${names.join(', ')}`).join('\n')
}

/** What `benchmarks/defaults.mjs` has written into the page. */
const figures = /<!-- figures -->[\s\S]*<!-- end of figures -->/

/** The text of `docs/defaults.md`; what was measured is kept as it is there. */
export const renderDefaultsDocs = (page: URL): string => {
  const [measured = '<!-- figures -->\n\n<!-- end of figures -->'] =
    figures.exec(readFileSync(page, 'utf8')) ?? []
  const rows = Object.entries(protocolDefaults).map(([path, defaults]) => {
    const { maxTokens, sampling } = defaults
    const { temperature, topK, topP, minP, repetitionPenalty } = { ...defaultSampling, ...sampling }
    const most = Number.isFinite(maxTokens) ? maxTokens : 'the rest of the slot'
    const cells = [`\`${path}\``, most, temperature, topK, topP, minP, repetitionPenalty]
    return `| ${cells.join(' | ')} |`
  })
  return `# Defaults

<!-- Generated from the table of defaults of @cllm/http-koa by \`pnpm run docs\`; do not edit. -->

## Protocols

For fields that a request leaves out: first \`api.defaults\` of the configuration, then the
[model's](#models), then each protocol's documented ones. Other penalties are off.

| route | most tokens | temperature | top_k | top_p | min_p | repetition penalty |
|---|---|---|---|---|---|---|
${rows.join('\n')}

## Models

The authors' recommendation, from the catalog (\`cllm show\`) or the file (\`general.sampling.temp\`, \`top_k\`, \`top_p\`,
\`min_p\`, \`penalty_repeat\`). Unlisted values come from the protocol. TinyLlama's was measured: of 20 plain questions it
answers 14 right at temperature 0, 11 at 0.3, and 3 to 4 at OpenAI's 1.

${modelLines()}

## Threads

Without \`--threads\` a lone model on a CPU starts on all physical cores if other processes leave them free, otherwise as
in the table; several share the cores. Then it measures, in less than 1 % of the time and never where a lone stream would
notice; what proved best is kept for the next start. A set number stays, and any with all layers on a GPU.

| physical cores | logical cores | threads of one model at first | of each of two | of each of four |
|---|---|---|---|---|
${threadRows()}

## What they cost

${measured}
`
}
