import { readdirSync, readFileSync } from 'node:fs'
import { PluginRegistry, registerPlugin } from '@cllm/core'
import { createKoaProtocols, protocolsPlugin, type ApiRoute } from '@cllm/http-koa'
import { schedulerPlugin } from '@cllm/scheduler'
import t from 'tap'
import { loadConfig } from '../../src/config/load-config.js'
import { options } from '../../src/config/options/option-list.js'
import { commands } from '../../src/commands/help/command-table.js'

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
const routes: readonly ApiRoute[] = createKoaProtocols(registry, {
  options: registry.protocolNames().includes('batches') ? batches : {},
}).flatMap(({ routes: own = [] }) => own)

/** The route that answers a request, such as `/requests/:id` for `/requests/ID`. */
const routeFor = (method: string, path: string): ApiRoute | undefined =>
  routes.find((route) => {
    const pattern = route.path.replaceAll(/:\w+/g, '[^/]+').replaceAll(/\*\w+/g, '.+')
    return route.method === method.toLowerCase() && new RegExp(`^${pattern}$`).test(path)
  })

t.test('what curl asks for is there, and what it sends is accepted', (t) => {
  let bodies = 0
  for (const { page, text } of blocksIn('sh')) {
    for (const [call] of text.replaceAll('\\\n', ' ').matchAll(/^curl .*?(?= [|>] |$)/gm)) {
      const path = /http:\/\/127\.0\.0\.1:\d+([^\s?']*)/.exec(call)?.[1] ?? ''
      const data = /-d '([^']*)'/.exec(call)?.[1]
      const sends = data !== undefined || / -F /.test(call)
      const method = /-X (\w+)/.exec(call)?.[1] ?? (sends ? 'POST' : 'GET')
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

const flags = new Set(options.map(({ arg }) => `--${arg}`))

/** Whether a flag, a route or a command of a table is there. */
function isThere(name: string): boolean {
  if (name.startsWith('--')) return flags.has(name.replace(/^--no-/, '--')) || flags.has(name)
  if (name.startsWith('cllm ')) return commands.has(name.slice('cllm '.length))
  const [method = '', path] = name.split(' ')
  return path !== undefined && routeFor(method, path) !== undefined
}

t.test('coming from another server: what takes the place of theirs is there', (t) => {
  const page = read('docs/coming-from.md')
  const rows = [...page.matchAll(/^\| (.+?) \| (.+?) \| (.*?) ?\|$/gm)].filter(
    ([, , ours]) => ours !== 'cLLM' && ours !== '---',
  )
  t.ok(rows.length > 90, `${rows.length} rows`)
  for (const [row, , ours = ''] of rows) {
    const names = [...ours.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
    t.equal(names.length > 0, ours !== '–', row)
    for (const name of names) t.ok(isThere(name), `${name}: ${row}`)
  }
  t.notOk(isThere('--no-such-flag'))
  t.notOk(isThere('POST /no/such/route'))
  // What is said to be missing is.
  for (const missing of ['POST /pooling', 'POST /classify']) {
    t.notOk(isThere(missing), `${missing} is there: docs/coming-from.md says it is not`)
  }
  for (const missing of ['--control-vector', '--mmproj', '--cache-reuse', '--reasoning-budget']) {
    t.notOk(isThere(missing), `${missing} is there: docs/coming-from.md says it is not`)
  }
  t.end()
})
