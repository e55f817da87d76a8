import { readdirSync, readFileSync } from 'node:fs'
import { PluginRegistry } from '@cllm/core'
import { registerPlugin } from '@cllm/host'
import {
  builtInProtocols,
  createKoaProtocols,
  protocolsPlugin,
  type BoundRoute,
} from '@cllm/http-koa'
import { schedulerPlugin } from '@cllm/scheduler'
import t from 'tap'
import { unknownFlag } from '../../src/config/layers.js'
import { loadConfig } from '../../src/config/load-config.js'
import { options } from '../../src/config/options/schema.js'
import { commands } from '../../src/commands/help/command-table.js'
import { serve } from '../serve-process.js'

const root = new URL('../../../../', import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8')
const guides = readdirSync(new URL('docs', root)).filter((name) => name.endsWith('.md'))
const pages = ['README.md', ...guides.map((name) => `docs/${name}`)]

/** The blocks of code of all pages in a language, each with its page. */
const blocksIn = (language: string) =>
  pages.flatMap((page) =>
    [
      ...read(page).matchAll(new RegExp(`^( *)\`\`\`${language}\\n([\\s\\S]*?)^ *\`\`\`$`, 'gm')),
    ].map(([, indent = '', text = '']) => ({
      page,
      text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    })),
  )

const registry = new PluginRegistry()
await registerPlugin(schedulerPlugin, registry)
await registerPlugin(protocolsPlugin, registry)
const batches = { batches: { folder: t.testdir() } }
const routes: readonly BoundRoute[] = createKoaProtocols(registry, {
  options: registry.protocolNames().includes('batches') ? batches : {},
}).flatMap(({ routes: own = [] }) => own)

/** The route that answers a request, such as `/requests/:id` for `/requests/ID`. */
const routeFor = (method: string, path: string): BoundRoute | undefined =>
  routes.find((route) => {
    const pattern = route.path.replaceAll(/:\w+/g, '[^/]+').replaceAll(/\*\w+/g, '.+')
    return route.method === method.toLowerCase() && new RegExp(`^${pattern}$`).test(path)
  })

/** What a call of curl sends, and where. */
const readCall = (call: string) => {
  const [, path = '', query = ''] = /http:\/\/127\.0\.0\.1:\d+([^\s?']*)([^\s']*)/.exec(call) ?? []
  const data = /-d '([^']*)'/.exec(call)?.[1]
  const sends = data !== undefined || / -F /.test(call)
  const method = /-X (\w+)/.exec(call)?.[1] ?? (sends ? 'POST' : 'GET')
  return { call, path, query, data, method }
}

/** The calls of curl in a block. */
const callsIn = (text: string) =>
  [...text.replaceAll('\\\n', ' ').matchAll(/^curl .*?(?= [|>] |$)/gm)].map(([call]) =>
    readCall(call),
  )

t.test('what curl asks for is there, and what it sends is accepted', (t) => {
  let bodies = 0
  for (const { page, text } of blocksIn('sh')) {
    for (const { call, path, data, method } of callsIn(text)) {
      const route = routeFor(method, path)
      t.ok(route, `${page}: ${method} ${path}`)
      if (data === undefined || route?.body === undefined) continue
      const { error } = route.body.safeParse(JSON.parse(data))
      // What is refused is there to show how: the page has the reason.
      for (const { message } of error?.issues ?? []) {
        t.ok(
          read(page).includes(`expected ${message}, instead got`),
          `${page}: ${call}: ${message}`,
        )
      }
      bodies++
    }
  }
  t.ok(bodies >= 8, `${bodies} bodies`)
  t.end()
})

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Where an answer has other fields than its sample. A list has something like all that the sample's has. */
function differences(sample: unknown, answer: unknown, at = ''): string[] {
  if (Array.isArray(sample) && Array.isArray(answer)) {
    return sample.flatMap((each: unknown) => {
      // Whether a request had to wait is up to the moment.
      if (isObject(each) && each['type'] === 'waited') return []
      const all = answer.map((one: unknown) => differences(each, one, `${at}[]`))
      return all.some((one) => one.length === 0) ? [] : (all[0] ?? [`${at}[]`])
    })
  }
  if (!isObject(sample) || !isObject(answer))
    return isObject(sample) === isObject(answer) ? [] : [at]
  if ('…' in sample) return []
  return [...new Set([...Object.keys(sample), ...Object.keys(answer)])].flatMap((key) => {
    const path = `${at}.${key}`
    return key in sample && key in answer ? differences(sample[key], answer[key], path) : [path]
  })
}

const endpointsOf = (overview: unknown): unknown =>
  (overview as { readonly data: { readonly endpoints: unknown } }).data.endpoints

t.test('what the native API answers has the fields that its page shows', async (t) => {
  t.same(differences({ a: [{ b: 1 }], c: 1 }, { a: [{ c: 1 }], d: 1 }), [
    '.a[].b',
    '.a[].c',
    '.c',
    '.d',
  ])
  const { url } = await serve(t, '--model', 'stories15m', '--slots', '8')
  const samples = read('docs/api.md').matchAll(/```sh\n(curl [^`]*)```\n\n```json\n([^`]*)```/g)
  let count = 0
  for (const [, text = '', sample = ''] of samples) {
    const { call, path, query, data, method } = callsIn(text)[0]!
    const id = /^\/requests\/(.*)/.exec(path)?.[1]
    const send = async (to: string, body?: string, headers?: Record<string, string>) => {
      const sent =
        body === undefined ? { method } : { method: 'POST', body, headers: headers ?? {} }
      return await (await fetch(url + to, sent)).json()
    }
    if (id !== undefined) {
      const own = { 'x-request-id': id }
      await send('/generate', '{"prompt": "Once upon a time", "max_tokens": 12}', own)
    }
    const answer: unknown = await send(path + query, data)
    const shown: unknown = JSON.parse(sample)
    t.same(differences(shown, answer), [], call)
    if (path === '/') t.same(endpointsOf(shown), endpointsOf(answer))
    count++
  }
  t.ok(count >= 9, `${count} samples`)
})

t.test('the README of the protocols lists them all', (t) => {
  const [, list = ''] = /the protocols ([^.]*)\./.exec(read('packages/http-koa/README.md')) ?? []
  const names = [...list.matchAll(/`([^`]+)`/g)].map(([, name]) => name)
  t.same(
    names,
    builtInProtocols.map(({ name }) => name),
  )
  t.end()
})

t.test('YAML is a configuration that loads', (t) => {
  const blocks = blocksIn('yaml')
  t.ok(blocks.length >= 3)
  for (const { page, text } of blocks) {
    const config = () =>
      loadConfig({
        argv: ['--config', '/etc/cllm.yaml'],
        env: {},
        cwd: '/',
        readFile: (file) => {
          if (file === '/etc/cllm.yaml') return text
          throw new Error(`ENOENT: ${file}`)
        },
      })
    t.doesNotThrow(config, `${page}: ${text}`)
  }
  t.end()
})

const flags = new Set(options.map(({ flag }) => `--${flag}`))

/** Whether a flag, a route or a command of a table is there. */
function isThere(name: string): boolean {
  if (name.startsWith('--')) return flags.has(name.replace(/^--no-/, '--')) || flags.has(name)
  if (name.startsWith('cllm ')) return commands.has(name.slice('cllm '.length))
  const [method = '', path] = name.split(' ')
  return path !== undefined && routeFor(method, path) !== undefined
}

t.test('coming from another server: what takes the place of theirs is there', (t) => {
  const page = read('docs/coming-from.md')
  const rows = [...page.matchAll(/^- (.+?): (–|`[^(\n]+`)(?: \(.*\))?$/gm)]
  t.ok(rows.length > 80, `${rows.length} rows`)
  for (const [row, , ours = ''] of rows) {
    const names = [...ours.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
    t.equal(names.length > 0, ours !== '–', row)
    for (const name of names) t.ok(isThere(name), `${name}: ${row}`)
  }
  const own = options.flatMap(({ flag }) => [flag, `no-${flag}`])
  for (const [, names = '', ours = ''] of rows) {
    for (const [, theirs = ''] of names.matchAll(/(?<!no )`(--?[\w-]+)`/g)) {
      if (own.includes(theirs.slice(2))) continue
      const said = unknownFlag(theirs, own)
      const [, meant] = /did you mean (.*)\?$/.exec(said) ?? []
      if (ours === '–') t.match(said, 'docs/coming-from.md', theirs)
      else t.match(ours, `\`${meant}\``, `${theirs}: what the command line and the page say`)
    }
  }
  t.notOk(isThere('--no-such-flag'))
  t.notOk(isThere('POST /no/such/route'))
  // What is said to be missing is.
  for (const missing of ['POST /pooling', 'POST /classify']) {
    t.notOk(isThere(missing), `${missing} is there: docs/coming-from.md says it is not`)
  }
  for (const missing of ['--control-vector', '--cache-reuse', '--reasoning-budget']) {
    t.notOk(isThere(missing), `${missing} is there: docs/coming-from.md says it is not`)
  }
  t.end()
})
