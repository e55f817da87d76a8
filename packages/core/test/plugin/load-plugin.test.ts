import { join } from 'node:path'
import {
  definePlugin,
  loadPlugins,
  type PluginEntry,
  PluginRegistry,
  registerPlugin,
} from '@cllm/core'
import t, { type Test } from 'tap'
import { z } from 'zod'

/** A module whose plugin registers a policy that is named like its `quantum`. */
const good = (name: string) => `
export default {
  name: ${JSON.stringify(name)},
  apiVersion: 1,
  options: {
    parse(value) {
      const { quantum = 7 } = value
      if (typeof quantum === 'number') return { quantum }
      const issue = { path: ['quantum'], message: 'Invalid input: expected number, received string' }
      throw Object.assign(new Error('wrong'), { issues: [issue] })
    },
  },
  async register(host, { quantum }) {
    const policy = { name: ${JSON.stringify(name)} + quantum, plan() {} }
    host.registerPolicy({ name: policy.name, doc: 'Plans nothing.', create: () => policy })
  },
}
`
const withPlugin = (
  change: string,
) => `${good('changed').replace('export default', 'const plugin =')}
export default ${change}
`

function folder(t: Test): string {
  return t.testdir({
    'package.json': '{ "type": "module" }',
    'my-plugin.js': good('mine'),
    'other.mjs': good('other'),
    'common.cjs': good('common').replace('export default', 'module.exports ='),
    directory: { 'index.js': good('directory') },
    node_modules: {
      'cllm-policy': {
        'package.json': '{ "name": "cllm-policy", "exports": "./main.js", "type": "module" }',
        'main.js': good('packaged'),
      },
      '@team': {
        policy: {
          'package.json': '{ "name": "@team/policy", "main": "lib.cjs" }',
          'lib.cjs': good('scoped').replace('export default', 'module.exports ='),
        },
      },
    },
    'syntax.js': 'export default {',
    'missing.js': `import 'no-such-package'`,
    'throws.js': `throw new Error('not today')`,
    'named.js': 'export const plugin = {}',
    'function.js': 'export default () => {}',
    'old.js': withPlugin('{ ...plugin, apiVersion: 0 }'),
    'nameless.js': withPlugin(`{ ...plugin, name: '' }`),
    'schema.js': withPlugin('{ ...plugin, options: {} }'),
    'unregistered.js': withPlugin('{ ...plugin, register: undefined }'),
    'plain.js': withPlugin('{ ...plugin, options: undefined }'),
    'failing.js': withPlugin(`{ ...plugin, register() { throw new Error('no host') } }`),
    'unfinished.js': withPlugin(
      `{ ...plugin, register: async (host) => host.registerPolicy({ name: 'x' }) }`,
    ),
  })
}

t.test('plugins by path and by package name', async (t) => {
  const from = folder(t)
  const registry = new PluginRegistry()
  await loadPlugins(
    [
      { use: './my-plugin.js', options: { quantum: 3 } },
      { use: './other' },
      { use: './common.cjs', options: {} },
      { use: './directory' },
      { use: 'cllm-policy' },
      { use: '@team/policy' },
      { use: join(from, 'my-plugin.js'), options: { quantum: 4 } },
    ],
    { from, registry },
  )
  t.same(registry.policyNames(), [
    'common7',
    'directory7',
    'mine3',
    'mine4',
    'other7',
    'packaged7',
    'scoped7',
  ])
})

t.test('errors name the entry and what is wrong', async (t) => {
  const from = folder(t)
  const fails = async (entry: PluginEntry, code: string, message: string | RegExp) => {
    const registry = new PluginRegistry()
    const entries = [{ use: './other.mjs' }, entry]
    await t.rejects(loadPlugins(entries, { from, registry }), { code, message }, entry.use)
  }
  const wrong = 'plugins[1] ("./my-plugin.js"): option "quantum": expected number, received string'
  await fails({ use: './my-plugin.js', options: { quantum: '3' } }, 'invalid_configuration', wrong)
  await fails(
    { use: './plain.js', options: { quantum: 3 } },
    'invalid_configuration',
    'plugins[1] ("./plain.js"): option "quantum": the plugin takes no options',
  )
  const found =
    /^plugins\[1\] \("\.?\/?[\w-]+(\.js)?"\): there is no such package or file, looked up/
  await fails({ use: './no-such.js' }, 'plugin_not_found', found)
  await fails({ use: 'no-such-package' }, 'plugin_not_found', found)
  await fails({ use: 'my-plugin.js' }, 'plugin_not_found', /did you mean "\.\/my-plugin\.js"\?$/)
  await fails(
    { use: './syntax.js' },
    'plugin_not_found',
    /"\.\/syntax.js"\): it cannot be loaded: /,
  )
  await fails({ use: './missing.js' }, 'plugin_not_found', /cannot be loaded: .*no-such-package/)
  await fails({ use: './throws.js' }, 'plugin_not_found', /cannot be loaded: not today/)
  await fails({ use: './named.js' }, 'plugin_invalid', /expected a default export made with/)
  await fails({ use: './function.js' }, 'plugin_invalid', /expected a default export made with/)
  await fails({ use: './old.js' }, 'plugin_invalid', /expected apiVersion 1, instead got 0/)
  await fails({ use: './nameless.js' }, 'plugin_invalid', /to have a name/)
  await fails({ use: './schema.js' }, 'plugin_invalid', /a schema with a method parse/)
  await fails({ use: './unregistered.js' }, 'plugin_invalid', /register to be a function/)
  await fails({ use: './failing.js' }, 'plugin_invalid', 'plugins[1] ("./failing.js"): no host')
  await fails({ use: './unfinished.js' }, 'plugin_invalid', /unfinished.*a function that makes it/)
  await fails(
    { use: './other.mjs' },
    'plugin_conflict',
    'plugins[1] ("./other.mjs"): A policy named "other7" is registered already',
  )
})

t.test('a plugin made in code', async (t) => {
  const seen: number[] = []
  const plugin = definePlugin({
    name: 'in-code',
    apiVersion: 1,
    options: z.object({ quantum: z.number().default(5), label: z.string().optional() }),
    register(_, { quantum }) {
      seen.push(quantum)
    },
  })
  await registerPlugin(plugin, new PluginRegistry())
  await registerPlugin(plugin, new PluginRegistry(), { quantum: 6 })
  t.same(seen, [5, 6])
  await t.rejects(registerPlugin(plugin, new PluginRegistry(), { quantum: '6', label: 1 }), {
    code: 'invalid_configuration',
    message:
      'in-code: option "quantum": expected number, received string; ' +
      'option "label": expected string, received number',
    details: { plugin: 'in-code' },
  })
})
