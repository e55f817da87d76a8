import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { llamaServerProtocol, ollamaProtocol, openAiProtocol } from '@cllm/http-koa'
import { batchingNames, orderNames } from '@cllm/scheduler'
import t from 'tap'
import { dispatch } from '../../src/dispatch.js'
import { testNames } from './parse-tests.js'

const root = new URL('../../../../', import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8')
const markdownIn = (folder: string): string[] =>
  readdirSync(new URL(folder, root))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}${name}`)
const pages = [
  'README.md',
  'benchmarks/README.md',
  'benchmarks/scheduling.md',
  ...['docs/', 'docs/decisions/'].flatMap(markdownIn),
]
const readme = read('README.md')
const why = read('docs/why.md')

/** The cells of the rows between the marks that `benchmarks/readme.mjs` fills. */
const tableRows = (page: string): string[][] => {
  const [, made = ''] = /<!-- figures -->([\s\S]*)<!-- end of figures -->/.exec(page) ?? []
  const rows = made.split('\n').filter((line) => /^\| ?[^ -]/.test(line))
  return rows.slice(1).map((line) => line.slice(2, -2).split(' | '))
}

/** The anchors of a page's headings, as GitHub makes them. */
const anchorsOf = (page: string): Set<string> => {
  const headings = [...read(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading)
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )
}

t.test('links lead to pages and headings that there are', async (t) => {
  for (const page of pages) {
    const text = read(page).replaceAll(/^```[\s\S]*?^```$/gm, '')
    for (const [, link = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link)) continue
      const [path = '', anchor] = link.split('#')
      const to = path === '' ? page : new URL(path, new URL(page, 'file:///')).pathname.slice(1)
      t.ok(existsSync(new URL(to, root)), `${page}: ${link}`)
      if (anchor !== undefined) t.ok(anchorsOf(to).has(anchor), `${page}: ${link}`)
    }
  }
})

t.test('the list of pages has them all once, in the order of a reader', (t) => {
  const [, list = ''] = /^(## [\s\S]*)## Glossary/m.exec(read('docs/README.md')) ?? []
  const order = 'Getting started Using Operating Scheduling Extending Embedding Reference'
  t.equal([...list.matchAll(/^## (.+)$/gm)].map(([, name]) => name).join(' '), order)
  const listed = [...list.matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, page]) => `docs/${page}`)
  t.same([...listed, 'docs/README.md'].sort(), markdownIn('docs/').sort())
  t.end()
})

const helps = new Map<string, Promise<string>>()

/** What `cllm COMMAND --help` prints. */
function helpOf(command: string): Promise<string> {
  let help = helps.get(command)
  if (help === undefined) {
    let out = ''
    const stdout = { write: (text: string) => void (out += text) }
    const io = { stdout, stderr: stdout, env: {}, signal: new AbortController().signal }
    help = dispatch([...command.split(' '), '--help-all'], io).then(() => out)
    helps.set(command, help)
  }
  return help
}

t.test('commands are called with flags that they have', async (t) => {
  let count = 0
  for (const page of pages) {
    const blocks = [...read(page).matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
    const lines = blocks.flatMap(([, block = '']) => block.replaceAll('\\\n', ' ').split('\n'))
    for (const line of lines) {
      const call = /^cllm ((?:bench|keys|model|native) \w+|\w+)([^#']*)/.exec(line)
      if (call === null) continue
      const [, command = '', rest = ''] = call
      const help = await helpOf(command)
      t.match(help, `Usage: cllm ${command}`, `${page}: ${line}`)
      for (const [flag] of rest.matchAll(/--[\w-]+/g)) {
        t.ok(help.includes(`${flag} `) || help.includes(`${flag}\n`), `${page}: ${line}: ${flag}`)
        count++
      }
    }
  }
  t.ok(count > 50, `${count} flags`)
})

t.test('files that pages name are there', (t) => {
  const packages = readdirSync(new URL('packages/', root))
  const files = packages.flatMap((name) =>
    readdirSync(new URL(`packages/${name}/src/`, root), { recursive: true, encoding: 'utf8' }).map(
      (file) => `packages/${name}/src/${file}`,
    ),
  )
  for (const page of pages) {
    for (const [, path = ''] of read(page).matchAll(/`([\w./-]+\/[\w-]+\.tsx?)`/g)) {
      t.ok(
        files.some((file) => `/${file}`.endsWith(`/${path}`)),
        `${page}: ${path}`,
      )
    }
  }
  t.end()
})

t.test('benchmarks import what there is', (t) => {
  for (const folder of ['benchmarks/', 'benchmarks/lib/']) {
    for (const script of readdirSync(new URL(folder, root)).filter((name) =>
      name.endsWith('.mjs'),
    )) {
      const imports = read(folder + script).matchAll(/import \{([^}]+)\} from '(\.[^']+)'/g)
      for (const [, names = '', path = ''] of imports) {
        const source = path.replace('/dist/', '/src/').replace(/\.js$/, '.ts')
        const file = new URL(source, new URL(folder, root))
        const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
        t.not(text, '', `${folder}${script}: ${path}`)
        if (path.endsWith('/index.js')) continue
        for (const name of names.split(',').flatMap((one) => /\w+/.exec(one) ?? [])) {
          const exported = new RegExp(`^export .*\\b${name}\\b|^export \\{[^}]*\\b${name}\\b`, 'm')
          t.match(text, exported, `${folder}${script}: ${name} of ${path}`)
        }
      }
    }
  }
  t.end()
})

t.test('each protocol has a page with all its routes', (t) => {
  const documented = [
    ['docs/api-openai.md', openAiProtocol()],
    ['docs/api-ollama.md', ollamaProtocol()],
    ['docs/api-llama-server.md', llamaServerProtocol()],
  ] as const
  for (const [page, { routes = [] }] of documented) {
    const text = read(page)
    t.ok(routes.length > 0, page)
    for (const { path } of routes) {
      const written = path.replace(/[:*](\w+)$/, '{$1}')
      t.ok(text.includes(written), `${page}: ${written}`)
    }
  }
  t.end()
})

t.test('the summary of the scheduling page has the figures of its table', (t) => {
  const page = read('docs/scheduling.md')
  const [, summary = ''] = /In short, ([\s\S]*)/.exec(page) ?? []
  const table = read('benchmarks/scheduling.md')
  const row = (name: string) =>
    (new RegExp(`^\\| \`?${escape(name)}\`? \\|(.*)$`, 'm').exec(table)?.[1] ?? '').split(' | ')
  const longest = ['adaptive', 'chunked', 'continuous'].map((name) => {
    const seconds = Number(row(name)[0]?.replaceAll(/\D/g, '')) / 1000
    return `\`${name}\` (?:keeps the largest pause )?at ${seconds.toFixed(1)} s`
  })
  t.match(summary.replaceAll(/\s+/g, ' '), new RegExp(longest.join(', ')))
  for (const [, policy = '', share = ''] of summary.matchAll(/`(\w+\+\w+)`(?: meets)? (\d+ %)/g)) {
    t.equal(row(policy)[0]?.trim(), share, policy)
  }
  t.end()
})

t.test('the README: names, figures and the plug-in', (t) => {
  const [, scheduling = ''] = /## Scheduling\n([\s\S]*?)```/.exec(readme) ?? []
  for (const name of [...batchingNames, ...orderNames])
    t.ok(scheduling.includes(`\`${name}\``), name)
  t.ok(readme.includes(`${batchingNames.length} batchings × ${orderNames.length} orders`))
  const order = `| order of waiting requests | ${orderNames.length} orders, or a plug-in's |`
  t.ok(why.includes(order), order)
  const plugin = read('examples/order-plugin/short-answers.js').replace('// @ts-check\n', '')
  t.ok(read('docs/writing-a-plugin.md').includes(plugin), 'examples/order-plugin/short-answers.js')

  const rows = tableRows(readme)
  t.ok(rows.length >= 7)
  for (const [figure = '', ratio = ''] of rows) {
    t.ok(
      tableRows(why).some(([name = '', ...cells]) => {
        return name.startsWith(figure) && cells.some((cell) => cell.startsWith(ratio))
      }),
      `docs/why.md: ${figure} ${ratio}`,
    )
  }
  t.end()
})

t.test('the versions of Node to begin with are those that the build runs on', (t) => {
  const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } }
  const [, first, second] = /^\^(\d+\.\d+)\.0 \|\| >=(\d+\.\d+)\.0$/.exec(engines.node) ?? []
  const text = `Node ${first} or later, or ${second} or later`
  const readmes = ['cli', 'core'].map((name) => `packages/${name}/README.md`)
  for (const page of ['README.md', 'docs/start.md', ...readmes]) {
    t.ok(read(page).replaceAll(/\s+/g, ' ').includes(text), `${page}: ${text}`)
  }
  for (const name of readdirSync(new URL('packages', root))) {
    const own = JSON.parse(read(`packages/${name}/package.json`)) as { engines: object }
    t.same(own.engines, engines, name)
  }
  const lock = read('pnpm-lock.yaml')
  for (const tool of ['vite', 'knip']) {
    const version = new RegExp(`^  ${tool}: (\\S+)`, 'm').exec(read('pnpm-workspace.yaml'))?.[1]
    const [, own = ''] = lock.split(`\n  ${tool}@${version}:\n`)
    t.equal(/engines: \{node: (.*)\}/.exec(own)?.[1], engines.node, `${tool} ${version}`)
  }
  t.end()
})

/** What the README and the page on plug-ins say, and the test that runs it. */
const claims: readonly (readonly [claim: string, file: string, test: string])[] = [
  [
    'ranks the waiting requests, and goes with every batching',
    'examples/order-plugin/test/short-answers.test.ts',
    'simulated with every batching: the fewest tokens asked for first',
  ],
  [
    'cllm serve --plugin ./short-answers.js --policy adaptive+short-answers',
    'examples/order-plugin/test/short-answers.test.ts',
    'cllm serve takes it by name, and offers it with every batching',
  ],
  [
    'a plug-in is a module whose default export says what it adds',
    'packages/cli/test/docs/plugin-docs.test.ts',
    'every plug-in of the page loads beside the others',
  ],
  [
    'what to write; `registerorder` … adds it, `testorder` … is its suite',
    'packages/cli/test/docs/plugin-docs.test.ts',
    'what the page names is there',
  ],
  [
    'change it under load',
    'packages/cli/test/commands/serve/serve.test.ts',
    'the policy is swapped in the middle of 8 streams',
  ],
  [
    '`createserver` of `@cllm/host` builds a server from instances',
    'examples/compose-server/test/server.test.ts',
    'the composed server serves and stops',
  ],
  [
    'when it dies, it is started again and streams continue after their last token',
    'packages/cli/test/engine/spawn-engine.test.ts',
    'greedy streams continue unchanged though the engine is killed again and again',
  ],
  [
    'one machine or a [cluster](cluster.md) | continues after its last token |',
    'packages/host/test/supervisor/supervised-engine-client.test.ts',
    'whenever the engine dies, every answer stays the same',
  ],
  [
    'copied between slots, also while one is computed',
    'packages/core/test/engine/kv/kv-cache-manager.test.ts',
    'the prefix of a running request is copied',
  ],
  [
    '| several models | loaded and unloaded by use |',
    'packages/cli/test/commands/serve/models.test.ts',
    'two models, each loaded at its first use',
  ],
  [
    '| json schema | kept to, or refused with 400 |',
    'packages/backend-llamacpp/test/grammar/structured-output.test.ts',
    'what cannot be kept to is refused, and where it is',
  ],
  [
    'clients of openai, anthropic, ollama and llama-server work unchanged',
    'packages/cli/test/clients/clients.test.ts',
    'the same greedy prompt gives the same text through every protocol',
  ],
  [
    '`/docs` of a running server lists every route',
    'packages/http-koa/test/openapi/openapi-protocol.test.ts',
    'the description holds together, and every route of it is there',
  ],
  [
    'each bounds how much can overtake a request',
    'packages/scheduler/test/conformance.test.ts',
    'every order with every batching keeps the bound on overtaking',
  ],
  [
    'default < file < cllm_… variables < flags',
    'packages/cli/test/config/load-config.test.ts',
    'precedence: default < file < environment < flags',
  ],
  [
    'yaml files of the original cllm server work',
    'packages/cli/test/commands/serve/serve.test.ts',
    "the original server's YAML starts it, with one warning and a plugin",
  ],
  [
    'when another one needs the memory',
    'packages/host/test/models/model-pool.test.ts',
    'the least recently used one makes room, and two waiters cost one eviction',
  ],
  [
    'after `--keep-alive` (5 minutes) without use',
    'packages/host/test/models/model-pool.test.ts',
    'keep_alive',
  ],
  [
    'takes every unknown name for the first model',
    'packages/host/test/models/model-pool.test.ts',
    'aliases',
  ],
  [
    'ask a request why it waited',
    'packages/core/test/engine/report/engine-observers.test.ts',
    'a wait is split by what held meanwhile',
  ],
]

t.test('what the README, why.md and the page on plug-ins say is run by a test', (t) => {
  const all = [readme, why, read('docs/writing-a-plugin.md')].join(' ')
  const text = all.replaceAll(/\s+/g, ' ').toLowerCase()
  for (const [claim, file, test] of claims) {
    t.ok(text.includes(claim), claim)
    t.ok(testNames(read(file)).has(test), `${file}: ${test}`)
  }
  t.end()
})

function escape(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
}
