import { performance } from 'node:perf_hooks'
import { createEngine, ownEntry, PluginRegistry, systemRandom } from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import {
  batchedBenchRows,
  batchedBenchTable,
  type EngineTimes,
  llamaBenchRows,
  llamaBenchTable,
  promptsOf,
  type TokenWork,
  workSampling,
  writeRows,
} from '@cllm/bench'
import { type CommandIo, defineCommand } from '../command.js'
import { engineLikeProcess } from '../native/spawn-program.js'
import { modelHost } from './model-host.js'
import { one, integer, list, word } from '../flags.js'
import { modelFlags, readModel } from './flags/target.js'

const { slots: _, 'ctx-size': _unused, policy: _policy, ...shared } = modelFlags

const aliases: Readonly<Record<string, string>> = {
  '-p': '--n-prompt',
  '-n': '--n-gen',
  '-r': '--repetitions',
  '-o': '--output',
  '-m': '--model',
}

const command = defineCommand({
  usage: 'bench engine --model SPEC -p 512 -n 128 --parallel 1,8,32',
  doc: `
Measures the engine in this process, with sampling, and prints the same columns as llama-bench or
llama-batched-bench, so that the results can be compared.`,
  flags: {
    ...shared,
    'n-prompt': one('N', 'Prompt tokens; -p', integer(1), '512'),
    'n-gen': one('N', 'Generated tokens; -n', integer(1), '128'),
    parallel: one('N,…', 'Concurrent requests', list(integer(1, 256)), '1'),
    repetitions: one('N', 'Measured runs; -r', integer(1, 1000), '5'),
    style: one(
      'NAME',
      'Columns of llama-bench (default) or batched-bench',
      word('llama-bench', 'batched-bench'),
      'llama-bench',
    ),
    output: one(
      'FORMAT',
      'Output as md (default), csv, json or jsonl; -o',
      word('md', 'csv', 'json', 'jsonl'),
      'md',
    ),
    policy: one(
      'NAME',
      'Scheduling policy (default continuous+fcfs: prompts first)',
      String,
      'continuous+fcfs',
    ),
  },
  async run({ flags }, io, openHost: typeof modelHost = modelHost) {
    const { 'n-prompt': promptTokens, 'n-gen': outputTokens, parallel, style, output } = flags
    const contextSize = promptTokens + outputTokens + 2
    const slots = Math.max(...parallel)
    const settings = readModel({ ...flags, slots, 'ctx-size': contextSize })
    const host = await openHost(io)
    // Checked before a model is loaded in vain.
    const policy = host.policies.createPolicy(flags.policy, {})
    const backend = await host.openBackend(settings)
    const engine = createEngine({ backend, policy })
    const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
    const all: EngineTimes[] = []
    try {
      for (const sequences of parallel) {
        const work = { sequences, promptTokens, outputTokens }
        const times = { prefill: [] as number[], decode: [] as number[] }
        for (let round = 0; round <= flags.repetitions; round++) {
          io.signal.throwIfAborted()
          const prompts = promptsOf(work, backend.tokenizer.vocabularySize, round)
          const { prefill, decode } = await runOnce(client, work, prompts)
          if (round === 0) continue
          times.prefill.push(prefill)
          times.decode.push(decode)
        }
        all.push({ promptTokens, outputTokens, parallel: sequences, ...times })
      }
    } finally {
      // Closing the client disposes of its backend.
      await client.close()
    }
    const { model, limits, capabilities } = backend
    const context = {
      model,
      backend: capabilities.gpu === false ? 'CPU' : capabilities.gpu,
      batchSize: limits.batchSize,
      threads: settings.threads,
      contextSize: limits.contextSize,
    }
    const isBatched = style === 'batched-bench'
    const [table, rows] = isBatched
      ? [batchedBenchTable, batchedBenchRows]
      : [llamaBenchTable, llamaBenchRows]
    const text = output === 'md' ? table(all, context) : writeRows(rows(all, context), output)
    io.stdout.write(text)
  },
})

/** `cllm bench engine`, in this process. */
export async function benchEngine(
  argv: readonly string[],
  io: CommandIo,
  openHost: typeof modelHost = modelHost,
): Promise<number> {
  const words = argv.map((word) => ownEntry(aliases, word) ?? word)
  return await command(words, io, openHost)
}

/** `cllm bench engine` */
export const run = engineLikeProcess(['bench', 'engine'], benchEngine)

/** Seconds until the last request has its first token, and from then until the last token. */
async function runOnce(
  client: LocalEngineClient,
  { outputTokens }: TokenWork,
  prompts: readonly (readonly number[])[],
): Promise<{ prefill: number; decode: number }> {
  const sampling = { ...workSampling, ignoreEos: true }
  // the prompt's pass draws the first token: as many passes as tokens are left, as in llama-bench
  const maxTokens = outputTokens + 1
  const began = performance.now()
  let first = began
  await Promise.all(
    prompts.map(async (tokens) => {
      let isFirst = true
      const request = { prompt: { tokens }, maxTokens, sampling, cache: false }
      for await (const event of client.submit(request)) {
        if (event.type !== 'token' || !isFirst) continue
        isFirst = false
        first = performance.now()
      }
    }),
  )
  return { prefill: (first - began) / 1000, decode: (performance.now() - first) / 1000 }
}
