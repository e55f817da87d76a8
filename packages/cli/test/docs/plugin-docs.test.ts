import { readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { createServer, loadPlugins } from '@cllm/host'
import { PluginRegistry } from '@cllm/core'
import * as testing from '@cllm/testing'
import { FakeBackend, firstComeFirstServed } from '@cllm/testing'
import { createKoaProtocols, koaTransport } from '@cllm/http-koa'
import t from 'tap'

const root = new URL('../../../../', import.meta.url)
const page = readFileSync(new URL('docs/writing-a-plugin.md', root), 'utf8')

/** The blocks of code by the file name in their first line. */
const blocks = [...page.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, code = '']) => {
  const name = /^\/\/ (\S+)\n/.exec(code)?.[1]
  if (name === undefined) throw new Error(`a block without a file name: ${code.slice(0, 60)}`)
  return [name, code] as const
})
const files = Object.fromEntries(blocks)

/** The folder of an installed package. */
const packageFolder = (name: string, from: URL): string => {
  const require = createRequire(from)
  return dirname(require.resolve(`${name}/package.json`))
}
const packages = ['core', 'scheduler', 'simulation', 'http-koa', 'backend-llamacpp']
const folder = t.testdir({
  ...files,
  'package.json': '{ "type": "module" }',
  node_modules: {
    '@cllm': Object.fromEntries(
      packages.map((name) => [
        name,
        t.fixture('symlink', fileURLToPath(new URL(`packages/${name}`, root))),
      ]),
    ),
    zod: t.fixture(
      'symlink',
      packageFolder('zod', new URL('packages/scheduler/package.json', root)),
    ),
    tap: t.fixture('symlink', packageFolder('tap', new URL('package.json', root))),
  },
})

// The tests of the page, as a reader would run them: each uses the plug-ins beside it.
const tests = Object.keys(files).filter((name) => name.endsWith('.test.js'))
for (const name of tests) await import(pathToFileURL(join(folder, name)).href)

t.test('every plug-in of the page loads beside the others', async (t) => {
  const registry = new PluginRegistry()
  const plugins = Object.keys(files).filter((name) => !name.endsWith('.test.js'))
  t.ok(plugins.length >= 7, plugins.join())
  await loadPlugins(
    plugins.map((name) => ({ use: `./${name}` })),
    { from: folder, registry },
  )
  for (const name of plugins) {
    const used = tests.some((test) => files[test]?.includes(`./${name}`))
    t.ok(used || ['count.js', 'shelf.js'].includes(name), `${name} is used by a test`)
  }
  t.ok(registry.policyNames().includes('one-prompt+short-answers'))
  const options = { signal: new AbortController().signal, onProgress() {} }
  const fetched = await registry.modelSources().get('shelf')!.fetch('qwen', options)
  t.match(fetched.path, /models.qwen\.gguf$/)
})

t.test('the protocol of the page is served', async (t) => {
  const registry = new PluginRegistry()
  await loadPlugins([{ use: './count.js' }], { from: folder, registry })
  const protocols = createKoaProtocols(registry, { options: { count: { path: '/tokens' } } })
  const server = createServer({
    backend: new FakeBackend(),
    policy: firstComeFirstServed,
    transports: [koaTransport({ port: 0, protocols })],
  })
  t.teardown(() => server.close())
  const [address] = await server.listen()
  const response = await fetch(`${address?.url}/tokens?text=one+two+three`)
  const expected = await server.directory.open().tokenize('one two three')
  t.same(await response.json(), { tokens: expected.length })
})

t.test('what the page names is there', (t) => {
  for (const [, suite = ''] of page.matchAll(/`(test[A-Z]\w+)`/g)) {
    t.type((testing as Record<string, unknown>)[suite], 'function', suite)
  }
  for (const [, path = ''] of page.matchAll(/`((?:packages|examples|docs)\/[^`\s]+)`/g)) {
    t.doesNotThrow(() => statSync(new URL(path, root)), path)
  }
  t.end()
})
