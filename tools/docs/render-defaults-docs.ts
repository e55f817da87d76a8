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

const modelRows = (): string =>
  catalog
    .flatMap(({ name, sampling }) => (sampling === undefined ? [] : [{ name, ...sampling }]))
    .map(
      ({ name, temperature, topK, topP }) =>
        `| ${[`\`${name}\``, temperature, topK, topP].map((cell) => cell ?? '').join(' | ')} |`,
    )
    .join('\n')

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

The values for fields that a request leaves out, where the [model](#models) has none. They are each
protocol's own documented defaults, except that penalties are off everywhere. Settings under
\`api.defaults\` go before both, on every route.

| route | most tokens | temperature | top_k | top_p | min_p | repetition penalty |
|---|---|---|---|---|---|---|
${rows.join('\n')}

## Models

What a model's authors recommend goes before a protocol's default. It comes from the catalog
(\`cllm show\` shows it), and otherwise from the file: \`general.sampling.temp\`, \`top_k\`, \`top_p\`, \`min_p\`
and \`penalty_repeat\`, as llama.cpp reads them. An empty cell leaves it to the protocol. TinyLlama's was
measured: of 20 plain questions it answers 14 right at temperature 0, 11 at 0.3, and 3 to 4 at OpenAI's 1.

| model | temperature | top_k | top_p |
|---|---|---|---|
${modelRows()}

## Threads

Without \`--threads\`, the number of threads of a model on a CPU follows the machine. llama.cpp's threads
wait for one another at every layer, so one that shares its core with another process delays all of
them. A model starts with the number in the table: the physical performance cores, but one of the
logical cores that the process may use (also in a container) is left to everything else, and models in
memory at once (as many as \`--max-loaded-models\` says, or those loaded so far) share the rest. Then it
measures. While other processes leave cores free, more threads are tried, up to the physical
performance cores; when passes become slow, fewer are. Prompts and decodes have a number each. Trials
cost less than 1 % of the time. On a GPU, and with \`--native addon\`, the number in the table stays.

A set value is kept; a value above the number of logical cores is lowered to it, with a warning.

| physical cores | logical cores | threads of one model at first | of each of two | of each of four |
|---|---|---|---|---|
${threadRows()}
`
}
