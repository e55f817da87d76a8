import {
  createEngine,
  PluginRegistry,
  silentLogger,
  systemClock,
  systemRandom,
} from '../../packages/core/dist/index.js'
import { LocalEngineClient } from '../../packages/host/dist/index.js'
import { createLlamaCppBackend } from '../../packages/backend-llamacpp/dist/index.js'
import { createPolicy } from '../../packages/scheduler/dist/index.js'

/** The options of `parseArgs` that {@link openWriting} reads. */
export const writingFlags = {
  model: { type: 'string' },
  threads: { type: 'string', default: '2' },
  gpu: { type: 'string', default: 'off' },
}

/**
 * An engine in this process whose model writes given answers: a sampler lets only the next token of a task's
 * answer be drawn, so that the text is that of real tasks and the speed that of the model's shape.
 */
export async function openWriting(
  values,
  { slots, contextSize, policy = createPolicy(), speculative },
) {
  const backend = await createLlamaCppBackend(
    {
      modelPath: values.model,
      modelId: 'bench',
      slots,
      contextSize,
      batchSize: 512,
      threads: Number(values.threads),
      gpu: values.gpu,
    },
    { clock: systemClock, logger: silentLogger },
  )
  const answers = new Map()
  const registry = new PluginRegistry()
  registry.registerSampler({
    name: 'answer',
    doc: "Lets only the task's answer be drawn.",
    options: { shape: { task: {} }, parse: (options) => options },
    create: ({ task }) => ({
      apply: (logits, { tokens }) => {
        const { prompt, answer } = answers.get(task)
        const next = answer[tokens.length - prompt.length]
        const logit = logits[next]
        logits.fill(-Infinity)
        logits[next] = Number.isFinite(logit) ? logit : 0
      },
    }),
  })
  const engine = createEngine({ backend, policy, registry, options: { speculative } })
  const client = new LocalEngineClient(engine, registry, systemRandom)

  /** Has a task's answer written, and checks that it was; `more` goes into the request and its sampling. */
  async function write(task, { sampling, ...more }) {
    const { prompt, answer } = answers.get(task)
    const samplers = [{ name: 'answer', options: { task } }]
    const request = {
      prompt: { tokens: prompt },
      maxTokens: answer.length,
      sampling: { temperature: 0.7, ignoreEos: true, samplers, ...sampling },
      ...more,
    }
    const times = []
    const drawn = []
    let timings
    for await (const event of client.submit(request)) {
      if (event.type === 'token') {
        times.push(performance.now())
        drawn.push(event.token)
      }
      if (event.type === 'end') timings = event.timings
    }
    if (drawn.join() !== answer.join()) throw new Error(`task ${task}: another answer was drawn`)
    return { times, timings, tokens: answer.length }
  }
  return { backend, engine, answers, write }
}
