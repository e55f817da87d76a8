import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { inside } from '../../inside.js'
import { listening, start } from '../../start-process.js'

const fileOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))
const ngram = fileOf('../../../../../examples/backend-plugin/ngram-plugin.js')
const parts = fileOf('parts-plugin.js')
const words = 'the cat sat on the mat and the dog sat on the cat. '.repeat(8)

/** A configuration file with both plug-ins, and what they note. */
function configure(t: Test) {
  const folder = t.testdir({ 'words.txt': words })
  const seen = join(folder, 'seen.txt')
  const config = join(folder, 'cllm.json') // JSON is YAML
  const plugins = [ngram, { use: parts, options: { folder, seen } }]
  return { folder, seen, config, text: JSON.stringify({ plugins, engine: { backend: 'ngram' } }) }
}

interface Compared {
  readonly summary: { readonly ttftMs: { readonly p50: number } }
}

async function serve(t: Test, args: readonly string[]) {
  const child = start(t, ['serve', '--port', '0', '--gpu', 'off', ...args])
  const { url } = await listening(t, child)
  const generate = async (prompt: string) => {
    const body = JSON.stringify({ prompt, max_tokens: 8, temperature: 0 })
    const headers = { 'content-type': 'application/json' }
    return await fetch(`${url}/generate`, { method: 'POST', headers, body })
  }
  const end = async () => {
    child.kill('SIGTERM')
    t.same(await once(child, 'exit'), [0, null])
  }
  return { child, url, generate, end }
}

t.test(
  'a backend by its name, and the order of the docs in a folder without packages',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'cllm-plug-in-'))
    t.teardown(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'short-answers.js')
    const page = readFileSync(fileOf('../../../../../docs/writing-a-plugin.md'), 'utf8')
    writeFileSync(file, /^```js\n\/\/ short-answers\.js\n([\s\S]*?)^```$/m.exec(page)![1]!)
    writeFileSync(join(folder, 'words.txt'), words)
    const own = ['--plugin', file, '--policy', 'adaptive+short-answers']

    const { code, stdout, stderr } = await inside(['simulate', ...own, '--requests', '2', '--json'])
    t.equal(code, 0, stderr)
    t.match(JSON.parse(stdout), {
      policy: 'adaptive+short-answers',
      summary: { requests: { ok: 2 } },
    })

    const args = ['--plugin', ngram, '--backend', 'ngram', '--model', join(folder, 'words.txt')]
    const more = ['--backend-options', '{"order":4}', '--slots', '3', '--ctx-size', '99']
    const { url, generate, end } = await serve(t, [...args, ...more, ...own])
    t.match(await (await generate('the dog')).json(), { data: { text: ' sat on ' } })
    t.match(await (await fetch(`${url}/v1/models`)).json(), {
      data: [{ id: 'words.txt', meta: { architecture: 'ngram', n_ctx: 99 } }],
    })
    t.match(await (await fetch(`${url}/admin/scheduler`)).json(), {
      data: { policy: 'adaptive+short-answers' },
    })
    await end()
  },
)

t.test('parts and a model source from a plug-in', async (t) => {
  const { seen, config, text } = configure(t)
  writeFileSync(config, text)
  const use = ['tokenizer=lower-case', 'admission=short', 'logger=notes']
  const args = ['--config', config, '--model', 'store:words', '--model-id', 'cats']
  const server = await serve(t, [...args, ...use.flatMap((one) => ['--use', one])])
  const answer = await server.generate('THE DOG')
  t.match(await answer.json(), { data: { text: ' sat on ' } }, 'tokenizer=lower-case')
  const long = await server.generate('the cat sat on '.repeat(6))
  t.equal(long.status, 429, 'admission=short')
  t.match(await long.json(), { code: 'queue_full' })
  t.match(await (await fetch(`${server.url}/v1/models`)).json(), { data: [{ id: 'cats' }] })
  await server.end()
  const lines = readFileSync(seen, 'utf8').split('\n')
  t.ok(lines.includes('step'), 'the observer sees the steps')
  t.ok(lines.includes(`log ${server.child.pid} request`), 'logger=notes in the server')
  const learning = lines.find((line) => line.endsWith('learning from the text'))
  t.match(learning, /^log \d+ /, 'and in the engine')
  t.not(learning?.split(' ')[1], String(server.child.pid))
})

const onLinux = { skip: process.platform === 'linux' ? false : 'others have no folder in memory' }
t.test('what one engine has encoded is found by the others', onLinux, async (t) => {
  const model = join(t.testdir({ model: '' }), 'model')
  const backend = ['--plugin', fileOf('filing-plugin.js'), '--backend', 'filing', '--model', model]
  const options = ['--backend-options', '{"mmprojPath":"any"}']
  const engines = ['--workers', '2', '--router', 'round-robin']
  const prompt = { prompt_string: 'See <__media__>!', multimodal_data: [btoa('seen')] }
  const body = JSON.stringify({ prompt, n_predict: 1 })
  const headers = { 'content-type': 'application/json' }
  const outcomesWith = async (ram: string) => {
    const { url, end } = await serve(t, [...backend, ...options, ...engines, '--cache-ram', ram])
    const ask = () => fetch(`${url}/completion`, { method: 'POST', headers, body })
    t.equal((await ask()).status, 200)
    t.equal((await ask()).status, 200)
    const metrics = await (await fetch(`${url}/metrics`)).text()
    await end()
    return [...metrics.matchAll(/cllm_encodes_total\{.*outcome="(.*)"\} ([1-9])\n/g)].map(
      ([, outcome, count]) => `${count} ${outcome}`,
    )
  }
  t.same((await outcomesWith('auto')).toSorted(), ['1 encoded', '1 found'])
  t.same(await outcomesWith('0'), ['2 encoded'], 'unless nothing may be kept in memory')
})

t.test('what does not exist is refused before a model is loaded', async (t) => {
  const { config, text: yaml } = configure(t)
  writeFileSync(config, yaml)
  const wrong: readonly (readonly [readonly string[], RegExp, number])[] = [
    [['--backend', 'ngramm'], /expected one of llamacpp, ngram, .*did you mean "ngram"/, 2],
    [['--backend-options', '{"ordr":4}'], /no option "ordr".*did you mean "order"/, 2],
    [['--backend-options', '{"order":99}'], /backend "ngram": option "order".*32/, 2],
    [['--backend', 'llamacpp', '--backend-options', '{"order":9}'], /llamacpp.*order/, 2],
    [['--use', 'tokeniser=lower-case'], /use: .*did you mean "tokenizer"/, 2],
    [['--use', 'tokenizer=lower'], /use\.tokenizer: expected one of lower-case, .*"lower"/, 2],
    [['--use', 'tokenizer'], /--use: expected parts with the names/, 2],
    [['--model', 'stor:words'], /"stor"; expected one of hf, store; did you mean store/, 1],
    [
      ['--model', 'store:missing'],
      /cannot read the model .*missing\.txt: there is no such file/,
      1,
    ],
  ]
  await Promise.all(
    wrong.map(async ([args, message, code]) => {
      const ended = await inside(['serve', '--port', '0', '--config', config, ...args])
      t.match(ended, { code, stderr: message }, args.join(' '))
    }),
  )
})

t.test('cllm plugin new writes plug-ins that pass cllm plugin test', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'cllm-plugin-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const cllm = async (...args: readonly string[]) => {
    const child = start(t, args)
    const [said, errors, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'exit') as Promise<[number]>,
    ])
    return { said, errors, code }
  }
  const test = async (kind: string, runs: string) =>
    await cllm('plugin', 'test', join(folder, `my-${kind}`, `my-${kind}.js`), '--runs', runs)
  for (const kind of ['order', 'batching', 'router', 'protocol']) {
    const made = await inside(['plugin', 'new', kind, join(folder, `my-${kind}`)])
    t.match(made, { code: 0, stdout: /my-\w+\.js: a plug-in that works/ })
    const [, command] = /cllm (simulate .*)/.exec(made.stdout) ?? []
    if (command === undefined || kind === 'router') continue
    const { stdout } = await inside([...command.split(' '), '--requests', '40', '--json'])
    const [own, other] = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Compared)
    t.not(own?.summary.ttftMs.p50, other?.summary.ttftMs.p50, `${kind}: it makes a difference`)
  }
  t.match(await inside(['plugin', 'new', 'router', join(folder, 'my-router')]), {
    code: 2,
    stderr: /folder: it is there already: .*my-router\n$/,
  })
  // Its own name fits into a folder, that of its test does not.
  const long = await inside(['plugin', 'new', 'order', join(folder, 'a'.repeat(250))])
  t.match(long, { code: 2, stderr: /^error: folder: ENAMETOOLONG[^\n]*\n$/ })
  for (const kind of ['order', 'protocol']) {
    const { said, code } = await test(kind, '1')
    t.match(
      said,
      // as TAP until Node 22, in words since
      kind === 'order' ? /(?<!\d)0 failed[^]*[#ℹ] pass 1\n[#ℹ] fail 0/ : /[#ℹ] pass 1\n[#ℹ] fail 0/,
    )
    t.equal(said.includes(' passed, '), kind === 'order', 'what has no suite passed none')
    t.equal(code, 0, kind)
  }
  rmSync(join(folder, 'my-protocol', 'my-protocol.test.js'))
  t.match(await test('protocol', '1'), {
    code: 2,
    said: '',
    errors: /my-protocol.js: there is no suite/,
  })
  const inFolder = await inside(['plugin', 'test', join(folder, 'my-protocol')])
  t.match(inFolder, { code: 2, stderr: /^error: plug-in ".*my-protocol": expected a file/ })
  const own = join(folder, 'my-router', 'my-router.js')
  const router = readFileSync(own, 'utf8').replace('b.firstTokenMs < a.', 'b.firstTokenMs > a.')
  writeFileSync(own, router.replace('{ worker: earliest.id }', '{}'))
  const wrong = await test('router', '1')
  t.match(wrong.said, /✗ router my-router › [^]* [1-9] failed[^]*[#ℹ] fail 1/)
  t.equal(wrong.code, 1)
})
