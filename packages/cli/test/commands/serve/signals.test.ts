import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { plainEnvironment } from '@cllm/testing'
import t from 'tap'
import { localSources } from '../../models/local-sources.js'
import { childrenOf, gone, quickModel, serve, story } from '../../plain-process.js'
import { model } from '../../serve-process.js'
import { bin, listening, startNode } from '../../start-process.js'
import { until } from '../../until.js'

const whole = /"done":true,"generated_tokens":150/
/** As long for the quick model. */
const saga = { ...story, max_tokens: 1_000 }
/** As long as any machine needs. */
const drain = ['--drain-timeout', '600']
/** What does not end before it is ended. */
const epic = { ...story, max_tokens: 30_000 }

t.test('a plain process is one', async (t) => {
  const code = 'JSON.stringify([process.env, process.execArgv, process.eventNames()])'
  const [env, flags, events] = JSON.parse(
    execFileSync(process.execPath, ['-p', code], {
      env: plainEnvironment(process.env, { OWN: '1' }),
      encoding: 'utf8',
    }),
  ) as [Record<string, string>, string[], string[]]
  t.equal(env['OWN'], '1')
  t.equal(env['PATH'], process.env['PATH'])
  t.equal(env['NODE_OPTIONS'], process.env['CLLM_TEST_NODE_OPTIONS'])
  t.same(
    Object.keys(env).filter((name) => /TAP|TS_NODE/.test(name)),
    [],
  )
  t.notOk(flags.some((flag) => /import|loader|require/.test(flag)))
  t.same(
    events.filter((name) => name.startsWith('SIG')),
    [],
  )
})

t.test('SIGTERM after a model was fetched lets what runs finish', async (t) => {
  const folder = t.testdir({})
  const sources = await localSources(folder)
  t.teardown(() => sources.close())
  const spec = sources.upload('test/stories', 'stories.gguf', await readFile(model))
  const own = { HF_ENDPOINT: sources.env['HF_ENDPOINT'], CLLM_CACHE: join(folder, 'models') }
  const { child, url, generate, exit } = await serve(
    t,
    own,
    '--model',
    spec,
    '--slots',
    '2',
    ...drain,
  )
  const [engine = 0] = childrenOf(child)
  const streams = [generate(), generate(), generate(), generate()]
  await Promise.race(streams)
  process.kill(engine, 'SIGSTOP') // so that what runs does not finish
  t.equal((await fetch(`${url}/health/live`)).status, 200, 'it has read the other requests, too')
  child.kill('SIGTERM')
  await until(async () => (await fetch(`${url}/health/ready`)).status !== 200)
  const late = await fetch(`${url}/model/info`)
  t.equal(late.status, 503)
  t.match(await late.json(), { code: 'shutting_down' })
  process.kill(engine, 'SIGCONT')
  for (const stream of streams) t.match(await (await stream).text(), whole)
  t.same(await exit, [0, null])
})

t.test(
  'SIGTERM leaves requests their time that wait for a model, and ends MCP servers',
  async (t) => {
    const [file = ''] = quickModel.slice(-1).map((flag) => flag.replace('--model=', ''))
    const models = ['--model', `a=${file}`, '--model', `b=${file}`]
    const entry = '../../../../http-koa/test/protocols/mcp/tool-server.mjs'
    const tools = {
      command: process.execPath,
      args: [fileURLToPath(new URL(entry, import.meta.url))],
    }
    const options = JSON.stringify({ mcp: { servers: { tools } } })
    const args = [...drain, '--protocol-options', options]
    const { child, url, generate, exit } = await serve(
      t,
      {},
      ...quickModel.slice(0, -1),
      ...models,
      ...args,
    )
    t.equal((await fetch(`${url}/mcp/tools`)).status, 200)
    let isLoaded = false
    const asked = generate({ ...story, model: 'b' }).finally(() => (isLoaded = true))
    const isLoading = async (): Promise<boolean> =>
      /"loading"/.test(await (await fetch(`${url}/models`)).text())
    await until(async () => isLoaded || (await isLoading()))
    child.kill('SIGTERM')
    t.match(await (await asked).text(), whole)
    t.same(await exit, [0, null])
  },
)

t.test('the engine ignores the Ctrl-C that a terminal sends it too', async (t) => {
  // The server takes that which npm passes on as well for the same one.
  const npm = { npm_lifecycle_event: 'npx' }
  const { child, url, generate, exit } = await serve(t, npm, ...quickModel, ...drain)
  const [engine = 0] = childrenOf(child)
  const streams = await Promise.all([generate(saga), generate(saga)])
  process.kill(engine, 'SIGSTOP') // so that what runs does not finish
  process.kill(-child.pid!, 'SIGINT')
  process.kill(-child.pid!, 'SIGTERM') // a second SIGINT at once would be lost
  await until(async () => (await fetch(`${url}/health/ready`)).status !== 200)
  process.kill(engine, 'SIGCONT')
  for (const stream of streams) t.match(await stream.text(), /"done":true,"generated_tokens":1000/)
  t.same(await exit, [0, null])
})

t.test('one Ctrl-C lets what runs finish', async (t) => {
  const { child, url, generate, exit } = await serve(t, {}, ...quickModel, ...drain)
  const [engine = 0] = childrenOf(child)
  const stream = await generate(saga)
  process.kill(engine, 'SIGSTOP') // so that what runs does not finish
  child.kill('SIGINT')
  await until(async () => (await fetch(`${url}/health/ready`)).status !== 200)
  process.kill(engine, 'SIGCONT')
  t.match(await stream.text(), /"done":true,"generated_tokens":1000/)
  t.same(await exit, [0, null])
})

// SIGTERM: see the rolling restart in serve.test.ts.
t.test('a second Ctrl-C ends it at once, the engine too', async (t) => {
  const { child, url, generate, exit } = await serve(t, {}, ...quickModel, ...drain)
  const [engine = 0] = childrenOf(child)
  const stream = await generate(epic)
  process.kill(engine, 'SIGSTOP') // so that what runs does not finish
  child.kill('SIGINT')
  await until(async () => (await fetch(`${url}/health/ready`)).status !== 200)
  child.kill('SIGINT')
  t.same(await exit, [130, null])
  await t.rejects(stream.text())
  await gone(engine)
})

t.test('the engine does not outlive its parent', async (t) => {
  const { child, generate, exit } = await serve(t, {}, ...quickModel)
  const [engine = 0] = childrenOf(child)
  t.ok(engine > 0)
  const stream = await generate(epic)
  child.kill('SIGKILL')
  t.same(await exit, [null, 'SIGKILL'])
  await t.rejects(stream.text())
  await gone(engine)
})

t.test('a server ends with the package manager that started it', async (t) => {
  const tools = JSON.stringify(
    new URL('../../../../../tools/end-with-launchers.mjs', import.meta.url),
  )
  const main = JSON.stringify(pathToFileURL(bin))
  const script = `import { endWithLaunchers } from ${tools}; endWithLaunchers(); await import(${main})`
  const flags = ['cllm', 'serve', ...quickModel, '--port', '0', '--log-level', 'silent']
  const words = ['-e', script, '--', ...flags].map((word) => `'${word}'`).join(' ')
  // As npx does: the shell between the two gets none of its signals.
  const npx = `/* npx */ require('child_process').spawn('sh', ['-c', ${JSON.stringify(`node --input-type=module ${words}; true`)}], { stdio: 'inherit' })`
  const manager = startNode(t, ['-e', npx])
  const { url } = await listening(t, manager)
  t.equal((await fetch(`${url}/health/live`)).status, 200)
  manager.kill('SIGTERM')
  const isThere = async (): Promise<boolean> =>
    await fetch(`${url}/health/live`).then(
      () => true,
      () => false,
    )
  await until(async () => !(await isThere()))
})
