// Images and sounds, in cLLM beside llama-server. Five measurements:
//   answers  greedy answers that are equal: all can be only where both compute with one build of llama.cpp and in the same
//            passes (--extra=--policy static+fcfs): llama.cpp sums fewer than 64 vectors in another way than more
//   times    the first token of a prompt with an image, the same image again and after a restart, and the largest pause
//            of four streams while it comes, beside that of a text of as many tokens
//   turns    the first token of new images, on both servers in turns, each of which is at rest before
//   machines the first token of new images at one worker of a cluster, and of the same images at the other worker
//   kills    answers that change when the engine or the encoder is killed
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { writeSyntheticProjector } from '../packages/gguf/dist/index.js'
import { png, wav } from './lib/media-files.mjs'
import { randomOf, text } from './lib/prompts.mjs'
import { childrenOf } from './lib/processes.mjs'
import { pause, startServer } from './lib/servers.mjs'
import { median, table } from './lib/statistics.mjs'
import { gaps, stream } from './lib/stream.mjs'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: 'string' },
    // the length of its vectors
    width: { type: 'string', default: '288' },
    kind: { type: 'string', default: 'mlp' },
    'llama-server': { type: 'string' },
    'media-library': { type: 'string' },
    // more of cLLM's flags
    extra: { type: 'string', default: '' },
    // of its vectors within, and its layers: what encoding costs
    embedding: { type: 'string', default: '64' },
    layers: { type: 'string', default: '3' },
    'image-size': { type: 'string', default: '56' },
    count: { type: 'string', default: '40' },
    rounds: { type: 'string', default: '3' },
    // one of `cllm` and `llama-server`, in `times`
    only: { type: 'string' },
    // edges of the images of `times`, and words of a text of as many tokens
    pixels: { type: 'string', default: '896' },
    words: { type: 'string', default: '700' },
    // of the text before an image, in `turns`
    'words-before': { type: 'string', default: '8' },
    tokens: { type: 'string', default: '24' },
    'ctx-size': { type: 'string', default: '256' },
    seed: { type: 'string', default: '1' },
  },
})
const random = randomOf(Number(values.seed))
const folder = await mkdtemp(join(tmpdir(), 'cllm-images-'))
const projector = join(folder, 'mmproj.gguf')
const { kind } = values
await writeSyntheticProjector({
  out: projector,
  kind,
  width: Number(values.width),
  embedding: Number(values.embedding),
  layers: Number(values.layers),
  imageSize: Number(values['image-size']),
})

async function start(server, slots, ...more) {
  const { model, 'ctx-size': context, 'llama-server': llamaServer } = values
  const library = values['media-library']
  const extra = ['--mmproj', projector, '--chat-template', 'chatml', ...more]
  if (server === 'llama-server') extra.push('--jinja')
  else if (library !== undefined) extra.push('--media-library', library)
  if (server === 'cllm') extra.push(...values.extra.split(' ').filter(Boolean))
  return await startServer(server, { model, slots, context: Number(context), llamaServer, extra })
}

function part(width, height) {
  if (kind === 'ultravox') {
    const data = wav(0.2 + 20 * random(), random).toString('base64')
    return { type: 'input_audio', input_audio: { data, format: 'wav' } }
  }
  const url = `data:image/png;base64,${png(width, height, random).toString('base64')}`
  return { type: 'image_url', image_url: { url } }
}

/** An image or sound of any size between texts. */
function question() {
  const side = () => 16 + Math.floor(random() * 600)
  const media = part(side(), side())
  return [{ type: 'text', text: text(8, random) }, media, { type: 'text', text: 'Tell.' }]
}

async function ask({ url }, content) {
  const body = {
    messages: [{ role: 'user', content }],
    max_tokens: Number(values.tokens),
    temperature: 0,
    ignore_eos: true,
  }
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const { choices, usage, error } = await response.json()
  if (error !== undefined) throw new Error(`${url}: ${error.message}`)
  // llama-server leaves out a character that the last token only begins
  const answer = choices[0].message.content.replace(/\uFFFD+$/, '')
  return { answer, prompt: usage.prompt_tokens }
}

async function answers() {
  const servers = [await start('cllm', 2), await start('llama-server', 2)]
  let [equal, counted] = [0, 0]
  for (let nth = 0; nth < Number(values.count); nth++) {
    const content = question()
    const [ours, theirs] = [await ask(servers[0], content), await ask(servers[1], content)]
    if (ours.answer === theirs.answer) equal++
    else
      console.log(`${nth}:\n  ${JSON.stringify(ours.answer)}\n  ${JSON.stringify(theirs.answer)}`)
    if (ours.prompt === theirs.prompt) counted++
  }
  console.log(
    `${equal} of ${values.count} answers equal, ${counted} with equally many prompt tokens`,
  )
  for (const server of servers) await server.stop()
}

const chat = (server, content, tokens) =>
  stream({ url: server.url, kind: 'openai-chat' }, { content, tokens })
const firstToken = async (server, content) => (await chat(server, content, 4)).times[0]

/** The largest pause of four streams, each followed by another, until a prompt's first token. */
async function pauseDuring(server, content) {
  const end = new AbortController()
  const answers = []
  const follow = async () => {
    while (!end.signal.aborted) answers.push(await chat(server, text(24, random), 400))
  }
  const streams = Array.from({ length: 4 }, follow)
  await pause(2000)
  const { began, times } = await chat(server, content, 4)
  end.abort()
  await Promise.all(streams)
  const during = answers.flatMap((answer) =>
    gaps(answer).filter((_, nth) => {
      const [from, to] = [answer.times[nth], answer.times[nth + 1]].map((at) => answer.began + at)
      return to >= began && from <= began + times[0]
    }),
  )
  return Math.max(...during)
}

async function times() {
  const seen = (media) => [{ type: 'text', text: text(8, random) }, media, tell]
  const tell = { type: 'text', text: 'Tell.' }
  const side = Number(values.pixels)
  const rows = [['server', 'first', 'again', 'restarted', 'pause', "text's pause", 'ratio']]
  for (const name of values.only === undefined ? ['cllm', 'llama-server'] : [values.only]) {
    const disk = name === 'cllm' ? ['--cache-disk', join(folder, 'disk')] : []
    let server = await start(name, 6, ...disk)
    await firstToken(server, seen(part(300, 200)))
    const figures = []
    const shown = []
    for (let round = 0; round < Number(values.rounds); round++) {
      const media = part(side, side)
      shown.push(media)
      const first = await firstToken(server, seen(media))
      const again = await firstToken(server, seen(media))
      const long = await pauseDuring(server, seen(part(side, side)))
      const plain = await pauseDuring(server, text(Number(values.words), random))
      figures.push([first, again, long, plain])
    }
    await server.stop()
    const restarted = []
    if (name === 'cllm') {
      server = await start(name, 6, ...disk)
      await firstToken(server, seen(part(300, 200)))
      for (const media of shown) restarted.push(await firstToken(server, seen(media)))
      await server.stop()
    }
    const middle = (values) => (values.length === 0 ? '' : median(values).toFixed(0))
    const column = (nth) => figures.map((row) => row[nth])
    const ratio = median(figures.map(([, , long, plain]) => long / plain)).toFixed(2)
    const pauses = [middle(column(2)), middle(column(3)), ratio]
    rows.push([name, middle(column(0)), middle(column(1)), middle(restarted), ...pauses])
  }
  console.log(table(rows))
}

async function turns() {
  const names = ['cllm', 'llama-server']
  const servers = []
  for (const name of names) servers.push(await start(name, 2))
  const side = Number(values.pixels)
  const figures = names.map(() => [])
  const ratios = []
  for (let round = -1; round < Number(values.rounds); round++) {
    const pair = []
    for (const nth of round % 2 === 0 ? [0, 1] : [1, 0]) {
      await pause(500)
      const before = text(Number(values['words-before']), random)
      const content = [{ type: 'text', text: before }, part(side, side)]
      content.push({ type: 'text', text: 'Tell.' })
      pair[nth] = await firstToken(servers[nth], content)
    }
    // the first of each server warms it up
    if (round === -1) continue
    for (const [nth, ms] of pair.entries()) figures[nth].push(ms)
    ratios.push(pair[0] / pair[1])
  }
  const [least, most] = [Math.min(...ratios), Math.max(...ratios)].map((one) => one.toFixed(2))
  const rows = names.map((name, nth) => [name, median(figures[nth]).toFixed(0)])
  console.log(table([['server', 'first token ms'], ...rows]))
  console.log(`ratio: median ${median(ratios).toFixed(2)}, ${least} to ${most}`)
  for (const server of servers) await server.stop()
}

async function machines() {
  // Of TypeScript, so only this measurement needs `--import=./.ci/load-tests.mjs`.
  const { startCluster } = await import('./lib/cluster-processes.mjs')
  const { model, 'ctx-size': context, 'media-library': library } = values
  const own = library === undefined ? [] : ['--media-library', library]
  const extra = ['--mmproj', projector, '--chat-template', 'chatml', '--ctx-size', context, ...own]
  const cluster = await startCluster({ model, slots: 2, extra })
  const started = []
  for (const disk of ['one', 'other'])
    started.push(await cluster.worker({ more: ['--cache-disk', join(folder, disk)] }))
  const front = await cluster.front('--router', 'round-robin')
  const side = Number(values.pixels)
  const figures = []
  for (let round = -1; round < Number(values.rounds); round++) {
    const media = part(side, side)
    const row = []
    // Each other one is the other worker's.
    for (let nth = 0; nth < 4; nth++) {
      const content = [{ type: 'text', text: text(8, random) }, media]
      row.push(await firstToken(front, [...content, { type: 'text', text: 'Tell.' }]))
    }
    if (round >= 0) figures.push([...row, row[1] / row[0]])
  }
  const middle = (nth) => median(figures.map((row) => row[nth]))
  const names = ['first', 'at the other', 'again', 'again there', 'ratio']
  console.log(table([names, names.map((_, nth) => middle(nth).toFixed(nth < 4 ? 0 : 3))]))
  for (const server of [front, ...started]) await server.stop()
}

async function kills() {
  const server = await start('cllm', 4)
  let [same, changed, failed] = [0, 0, 0]
  for (let nth = 0; nth < Number(values.count); nth++) {
    const questions = Array.from({ length: 4 }, question)
    const running = questions.map((content) => ask(server, content).catch(() => undefined))
    await pause(300 * random())
    const engines = childrenOf(server.pid)
    const victims = nth % 2 === 0 ? engines : engines.flatMap((pid) => childrenOf(pid))
    for (const pid of victims) process.kill(pid, 'SIGKILL')
    const answers = await Promise.all(running)
    for (const [index, content] of questions.entries()) {
      const undisturbed = await ask(server, content)
      if (answers[index] === undefined) failed++
      else if (answers[index].answer === undisturbed.answer) same++
      else changed++
    }
  }
  console.log(
    `${values.count} kills: ${same} answers as without, ${changed} changed, ${failed} failed`,
  )
  await server.stop()
}

await { answers, times, turns, machines, kills }[positionals[0] ?? 'answers']()
await rm(folder, { recursive: true })
process.exit(0)
