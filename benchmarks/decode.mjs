// Decode speed of the engine in its child process, sampling on, against llama-batched-bench, which
// never samples. Alternating in one run.
import { execFile } from 'node:child_process'
import { parseArgs, promisify } from 'node:util'
import { startEngine } from './lib/engine.mjs'
import { randomOf } from './lib/prompts.mjs'
import { pause } from './lib/servers.mjs'
import { median, sum, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    'llama-batched-bench': { type: 'string' },
    sequences: { type: 'string', default: '1,8,16' },
    rounds: { type: 'string', default: '3' },
    tokens: { type: 'string', default: '64' },
    prompt: { type: 'string', default: '32' },
    'ctx-size': { type: 'string', default: '2048' },
    slots: { type: 'string', default: '16' },
    policy: { type: 'string', default: 'adaptive+fcfs' },
    gpu: { type: 'string', default: 'off' },
  },
})
const tokens = Number(values.tokens)
const promptTokens = Number(values.prompt)
const random = randomOf(Date.now())
const run = promisify(execFile)

/** Decodes behind prompts such that its sequences are as long as the engine's in the mean. */
async function native(sequences, meanContext) {
  const context = Number(values['ctx-size']) * sequences
  const prompt = Math.max(1, Math.round(meanContext - tokens / 2))
  const args = ['-m', values.model, '-c', context, '-npp', prompt, '-ntg', tokens]
  const { stdout } = await run(
    values['llama-batched-bench'],
    [...args, '-npl', sequences, '--output-format', 'jsonl'].map(String),
  )
  const line = stdout.split('\n').find((text) => text.startsWith('{'))
  return { speed: JSON.parse(line).speed_tg }
}

/** Starts the engine anew each time, as llama-batched-bench does. */
async function engine(sequences) {
  const backend = {
    modelPath: values.model,
    modelId: 'bench',
    slots: Number(values.slots),
    contextSize: Number(values['ctx-size']),
    gpu: values.gpu,
  }
  const { policy } = values
  const { client, info, kill, ended } = await startEngine(backend, { policy })
  // What is measured is while all decode: from the last first token to the first last one that is wanted.
  let [began, left] = [0, 0]
  const marks = []
  const mark = () => marks.push({ at: performance.now(), counts: client.statistics() })
  const one = async () => {
    const prompt = Array.from({ length: promptTokens }, () => {
      return Math.floor(random() * (info.model.vocabularySize - 1000))
    })
    const sampling = { temperature: 0.7, topK: 40, topP: 0.9, ignoreEos: true }
    const times = []
    // More than the others want, so that all of them decode to the end of the window.
    const request = { prompt: { tokens: prompt }, maxTokens: tokens + 2 * sequences, sampling }
    for await (const event of client.submit(request)) {
      if (event.type !== 'token') continue
      times.push(performance.now())
      if (times.length === 1 && ++began === sequences) mark()
      if (times.length === tokens && left++ === 0) mark()
    }
    return times
  }
  const streams = await Promise.all(Array.from({ length: sequences }, one))
  const [from, to] = marks.map(({ at }) => at)
  const contexts = streams.flatMap((times) =>
    times.flatMap((time, nth) => (time > from && time <= to ? [promptTokens + nth] : [])),
  )
  const [start, end] = await Promise.all(marks.map(({ counts }) => counts))
  const [decodeMs, sampleMs, steps] = ['decodeMs', 'sampleMs', 'steps'].map(
    (name) => end[name] - start[name],
  )
  const speed = (contexts.length * 1000) / (to - from)
  kill()
  await ended
  return {
    speed,
    passMs: decodeMs / steps,
    drawMs: sampleMs / steps,
    restMs: (sequences * 1000) / speed - (decodeMs + sampleMs) / steps,
    meanContext: sum(contexts) / contexts.length,
  }
}

const rows = [
  [
    'sequences',
    'llama-batched-bench tok/s',
    'engine tok/s',
    'ratio',
    'pass ms',
    'draws ms',
    'rest ms',
  ],
]
for (const sequences of values.sequences.split(',').map(Number)) {
  const results = []
  for (let round = 0; round < Number(values.rounds); round++) {
    const before = results.at(-1)?.ours.meanContext
    const first = round % 2 === 1 ? await native(sequences, before) : undefined
    await pause(500)
    const ours = await engine(sequences)
    await pause(500)
    results.push({ native: first ?? (await native(sequences, ours.meanContext)), ours })
  }
  const middle = (pick) => median(results.map(pick))
  rows.push([
    sequences,
    middle((result) => result.native.speed).toFixed(1),
    middle((result) => result.ours.speed).toFixed(1),
    middle((result) => result.ours.speed / result.native.speed).toFixed(3),
    middle((result) => result.ours.passMs).toFixed(2),
    middle((result) => result.ours.drawMs).toFixed(2),
    middle((result) => result.ours.restMs).toFixed(2),
  ])
}
console.log(table(rows))
