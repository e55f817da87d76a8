import { threadsFor } from '@cllm/backend-llamacpp'
import { catalog } from '../../packages/cli/src/models/catalog/catalog.js'
import { effectiveSampling, protocolDefaults } from '@cllm/http-koa'

const threadRows = (): string => {
  const row = (mathCores: number, cores: number) => {
    const cells = [1, 2, 4].map((engines) => threadsFor(undefined, mathCores, { cores, engines }))
    return `| ${[mathCores, cores, ...cells].join(' | ')} |`
  }
  const few = [1, 2, 4, 8, 16]
  return [...few.map((cores) => row(cores, cores)), row(4, 8), row(8, 16)].join('\n')
}

const modelLines = (): string => {
  const groups = new Map<string, string[]>()
  for (const { name, sampling } of catalog) {
    if (sampling === undefined) continue
    const { temperature, topK, topP } = sampling
    const values = Object.entries({ temperature, top_k: topK, top_p: topP })
      .flatMap(([field, value]) => (value === undefined ? [] : [`${field} ${value}`]))
      .join(', ')
    groups.set(values, [...(groups.get(values) ?? []), `\`${name}\``])
  }
  return [...groups].map(([values, names]) => `- ${values}: ${names.join(', ')}`).join('\n')
}

/** The text of `docs/defaults.md`. */
export const renderDefaultsDocs = (): string => {
  const rows = Object.entries(protocolDefaults).map(([path, defaults]) => {
    const { temperature, topK, topP, minP, repetitionPenalty } = effectiveSampling(defaults)
    const { maxTokens } = defaults
    const most = Number.isFinite(maxTokens) ? maxTokens : 'the rest of the slot'
    const cells = [`\`${path}\``, most, temperature, topK, topP, minP, repetitionPenalty]
    return `| ${cells.join(' | ')} |`
  })
  return `# Defaults

<!-- Generated from the table of defaults of @cllm/http-koa by \`pnpm run docs\`; do not edit. -->

## Protocols

Values for fields that a request leaves out: first \`api.defaults\` of the configuration, then the
[model's](#models), then each protocol's documented ones. Penalties are off everywhere.

| route | most tokens | temperature | top_k | top_p | min_p | repetition penalty |
|---|---|---|---|---|---|---|
${rows.join('\n')}

## Models

The authors' recommendation, from the catalog (\`cllm show\`) or the file (\`general.sampling.temp\`, \`top_k\`, \`top_p\`,
\`min_p\`, \`penalty_repeat\`). What is not listed is left to the protocol. TinyLlama's was measured: of 20 plain questions it
answers 14 right at temperature 0, 11 at 0.3, and 3 to 4 at OpenAI's 1.

${modelLines()}

## Threads

Without \`--threads\` a single model on a CPU starts on all physical cores if other processes leave them free, otherwise
with the number in the table; several models share the cores. Then it measures: more threads while cores are free, fewer
when passes become slow, for prompts and decodes, in less than 1 % of the time. On a GPU the number stays. A set value is
kept, up to the logical cores.

| physical cores | logical cores | threads of one model at first | of each of two | of each of four |
|---|---|---|---|---|
${threadRows()}
`
}
