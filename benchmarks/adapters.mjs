// Two adapters of a model at once: tokens/s where sequences have the same one, and where they take turns, as llama.cpp
// computes a pass with one set of adapters. The adapters are random; --width and --out-width are the shape of `attn_q`.
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { writeLoraAdapter } from '../packages/gguf/dist/index.js'
import { randomOf, text } from './lib/prompts.mjs'
import { serverFlags, startServer } from './lib/servers.mjs'
import { table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    architecture: { type: 'string', default: 'qwen3' },
    layers: { type: 'string', default: '28' },
    width: { type: 'string', default: '1024' },
    'out-width': { type: 'string', default: '2048' },
    tokens: { type: 'string', default: '100' },
  },
})
const random = randomOf(1)
const rank = 16
const [layers, width, outWidth, tokens] = ['layers', 'width', 'out-width', 'tokens'].map((name) =>
  Number(values[name]),
)

async function adapter(name) {
  const small = (length) => Float32Array.from({ length }, () => (random() - 0.5) / 50)
  const matrices = Array.from({ length: layers }, (_, layer) => {
    const [a, b] = [small(width * rank), small(outWidth * rank)]
    return { weight: `blk.${layer}.attn_q.weight`, rank, a, b }
  })
  const out = join(tmpdir(), `cllm-bench-${name}.gguf`)
  await writeLoraAdapter({ out, architecture: values.architecture, matrices, alpha: rank })
  return out
}

async function answer({ url }, lora) {
  const body = { prompt: text(32, random), n_predict: tokens, ignore_eos: true, lora }
  const response = await fetch(`${url}/completion`, { method: 'POST', body: JSON.stringify(body) })
  if (!response.ok) throw new Error(await response.text())
  await response.text()
}

const [first, second] = [await adapter('first'), await adapter('second')]
const [none, one, other] = [[], [{ id: 0, scale: 1 }], [{ id: 1, scale: 1 }]]
const loads = {
  'none, none': [none, none],
  'first, first': [one, one],
  'first, second': [one, other],
  'none, first': [none, one],
  'first, second, first, second': [one, other, one, other],
}
const flags = {
  cllm: ['--lora', `first=${first}:0`, '--lora', `second=${second}:0`],
  'llama-server': ['--lora', first, '--lora', second, '--lora-init-without-apply'],
}
const rows = [['server', 'adapters', 'tok/s']]
const { model, slots, 'ctx-size': context, 'llama-server': llamaServer, only } = values
const both = llamaServer === undefined ? ['cllm'] : ['cllm', 'llama-server']
for (const kind of only === undefined ? both : [only]) {
  const more = kind === 'cllm' ? values.extra.split(' ').filter(Boolean) : []
  const extra = [...flags[kind], ...more]
  const server = await startServer(kind, { model, slots, context, llamaServer, extra })
  for (const lora of [none, one, other]) await answer(server, lora)
  for (const [name, load] of Object.entries(loads)) {
    const began = performance.now()
    await Promise.all(load.map((lora) => answer(server, lora)))
    const seconds = (performance.now() - began) / 1000
    rows.push([kind, name, ((load.length * tokens) / seconds).toFixed(1)])
  }
  await server.stop()
}
console.log(table(rows))
