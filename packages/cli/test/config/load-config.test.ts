import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { rmSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createTemplateCompiler } from '@cllm/backend-llamacpp'
import { CllmError, defaultEngineOptions, silentLogger } from '@cllm/core'
import { defaultSupervisorOptions } from '@cllm/host'
import { nativeDefaults } from '@cllm/http-koa'
import { defaultPolicyName } from '@cllm/scheduler'
import * as fc from 'fast-check'
import t from 'tap'
import { toDocument } from '../../src/commands/serve/config.js'
import { loadConfig, type LoadedConfig } from '../../src/config/load-config.js'
import { options } from '../../src/config/options/schema.js'
import { toEngineSettings, toSupervisorOptions } from '../../src/engine/to-engine-settings.js'
import { readKeyFile } from '../../src/keys/keys.js'
import { toPresets } from '../../src/config/served-models.js'
import { namedTemplate, readChatTemplate, templateNames } from '../../src/config/paths.js'
import { toTransportOptions } from '../../src/api/http-options.js'
import { ignoredKeys, mappedKeys } from '../../src/config/file-layer.js'

interface Given {
  readonly flags?: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  /** The text of /etc/cllm.yaml. */
  readonly yaml?: string
}

const load = ({ flags = [], env = {}, yaml }: Given): LoadedConfig =>
  loadConfig({
    argv: yaml === undefined ? flags : ['--config', '/etc/cllm.yaml', ...flags],
    env,
    cwd: '/home/me',
    readFile: (file) => {
      if (file === '/etc/cllm.yaml' && yaml !== undefined) return yaml
      throw Object.assign(new Error(`ENOENT: ${file}`), { code: 'ENOENT' })
    },
  })

const problemsOf = (given: Given): readonly string[] => {
  try {
    load(given)
  } catch (error) {
    if (!CllmError.isInstance(error) || error.code !== 'invalid_configuration') throw error
    const { problems } = error.details as { problems: string[] }
    const listed = error.message.split('\n').slice(1)
    if (listed.join() !== problems.map((problem) => `  ${problem}`).join()) throw error
    return problems
  }
  return []
}

t.test('limits of the server and of its engine reach them', async (t) => {
  const flags = ['--body-limit', '2000000', '--bodies-limit', '5000000', '--prepare-timeout', '2.5']
  const { config } = load({ flags })
  t.match(toTransportOptions(config, undefined, true), {
    bodyLimitBytes: 2_000_000,
    bodiesLimitBytes: 5_000_000,
  })
  t.match(toSupervisorOptions(config), { hangTimeoutMs: 120_000, prepareTimeoutMs: 2500 })
  const bodyLimit = (flags: string[], encodes = true) =>
    toTransportOptions(load({ flags }).config, undefined, encodes).bodyLimitBytes
  t.equal(bodyLimit([]), 2 ** 20)
  t.equal(bodyLimit(['--mmproj', 'mmproj.gguf']), 2 ** 25, 'photos get through')
  t.equal(bodyLimit(['--model', 'smolvlm2']), 2 ** 25)
  t.equal(bodyLimit(['--model', 'hf:me/may-see']), 2 ** 25)
  t.equal(bodyLimit(['--model', 'hf:me/may-see'], false), 2 ** 20, 'nothing encodes them')
  t.equal(bodyLimit(['--cluster', 'redis://host']), 2 ** 25, 'workers may look at them')
  t.equal(bodyLimit(['--model', 'smolvlm2', '--mmproj', 'none']), 2 ** 20)
  t.equal(bodyLimit(['--model', 'qwen3-0.6b']), 2 ** 20)
  t.equal(bodyLimit(['--mmproj', 'mmproj.gguf', '--bodies-limit', '5000000']), 5_000_000)
  const { hangTimeoutMs, prepareTimeoutMs } = defaultSupervisorOptions
  t.same(toSupervisorOptions(load({}).config), { hangTimeoutMs, prepareTimeoutMs })
})

t.test('defaults', async (t) => {
  const { config, sources, warnings, file } = load({})
  t.equal(config.server.host, '127.0.0.1')
  t.equal(config.server.port, 8080)
  t.equal(config.model.spec, 'auto')
  t.equal(config.engine.slots, 16)
  t.equal(config.engine.ctx_size, 'auto')
  t.equal(config.scheduler.policy, defaultPolicyName)
  t.equal(config.scheduler.max_queued_requests, defaultEngineOptions.maxQueuedRequests)
  t.same(config.plugins, [])
  t.same(new Set(sources.values()), new Set(['default']))
  t.same(
    [...sources.keys()],
    options.map(({ path }) => path),
  )
  t.same(warnings, [])
  t.equal(file, undefined)

  const { defaults } = config.api
  const { maxTokens, sampling } = nativeDefaults
  t.equal(defaults.max_tokens, maxTokens, 'as the native API documents')
  t.equal(defaults.temperature, sampling.temperature)
  t.equal(defaults.top_p, sampling.topP)
})

t.test('names are unique, and every option has all of them', async (t) => {
  for (const name of ['flag', 'env', 'path'] as const) {
    t.equal(new Set(options.map((option) => option[name])).size, options.length)
  }
  for (const { path, doc, env } of options) {
    t.match(doc, /\.$/, path)
    t.match(env, /^(CLLM|OTEL)_[A-Z_]+$/, path)
    t.notOk(mappedKeys.has(path) || ignoredKeys.has(path), `${path} is this project's`)
  }
  for (const [key, mapped] of mappedKeys) {
    t.ok(
      options.some(({ path }) => path === mapped.path),
      `${key} stands for an option`,
    )
    t.notOk(ignoredKeys.has(key))
  }
})

t.test('precedence: default < file < environment < flags', async (t) => {
  const yaml = 'server:\n  port: 1001\nengine:\n  slots: 2\n  threads: 3\n'
  const env = { CLLM_PORT: '1002', CLLM_SLOTS: '4', CLLM_GPU: '', CLLM_MMAP: 'off' }
  const { config, sources } = load({ yaml, env, flags: ['--port', '1003', '--mlock'] })
  t.match(config, {
    server: { port: 1003 },
    engine: { slots: 4, threads: 3, gpu: 'auto', mmap: false, mlock: true },
  })
  t.equal(sources.get('server.port'), '--port')
  t.equal(sources.get('engine.slots'), 'CLLM_SLOTS')
  t.equal(sources.get('engine.threads'), '/etc/cllm.yaml:5')
  t.equal(sources.get('engine.gpu'), 'default', 'a variable set to nothing is not set')

  const named = loadConfig({
    argv: [],
    env: { CLLM_CONFIG: 'a/b.yaml' },
    cwd: '/home/me',
    readFile: (file) => (file === '/home/me/a/b.yaml' ? 'server: {port: 7}' : ''),
  })
  t.equal(named.config.server.port, 7)
  t.equal(named.file, 'a/b.yaml')
  t.equal(named.sources.get('server.port'), 'a/b.yaml:1')
})

t.test('how values are written', async (t) => {
  const { config } = load({
    yaml: 'engine: {flash_attention: false, threads: auto}\nlogging: {file: ""}\nmodel: {id: }\n',
    env: { CLLM_FLASH_ATTENTION: 'on', CLLM_PLUGINS: 'a, ./b.js', CLLM_USAGE: 'usage' },
    flags: [
      '--',
      '--no-mmap',
      '--no-usage',
      '--mlock=on',
      '--ctx-size=auto',
      '--default-presence-penalty',
      '-1.5',
      '--request-timeout',
      '0.5',
      '--port',
      '1',
      '--port',
      '2',
    ],
  })
  t.match(config, {
    server: { port: 2, usage: null },
    engine: { flash_attention: true, mmap: false, mlock: true, ctx_size: 'auto' },
    scheduler: { request_timeout: 0.5 },
    api: { defaults: { presence_penalty: -1.5 } },
    logging: { file: null },
    model: { id: null },
    plugins: [
      { use: 'a', options: {} },
      { use: '/home/me/b.js', options: {} },
    ],
  })
})

t.test('relative paths start from the folder of what names them', async (t) => {
  const yaml = `
model: {spec: models/a.gguf, chat_template: a.jinja}
logging: {file: cllm.log}
plugins: [./near.js, '@acme/far', {use: ../up.js, options: {a.b: 1}}]
`
  const fromFile = load({ yaml })
  t.match(fromFile.config, {
    model: { spec: '/etc/models/a.gguf', chat_template: '/etc/a.jinja' },
    logging: { file: '/etc/cllm.log' },
    plugins: [
      { use: '/etc/near.js', options: {} },
      { use: '@acme/far', options: {} },
      { use: '/up.js', options: { 'a.b': 1 } },
    ],
  })
  t.equal(fromFile.pluginsFolder, '/etc')

  const fromFlags = load({
    yaml,
    flags: ['--model', 'a.gguf', '--plugin', 'x', '--plugin', './y.js', '--models-cache', 'cache'],
    env: { CLLM_CHAT_TEMPLATE: '{{ messages }}' },
  })
  t.match(fromFlags.config, {
    model: { spec: '/home/me/a.gguf', chat_template: '{{ messages }}' },
    models: { cache: '/home/me/cache' },
    plugins: [{ use: 'x' }, { use: '/home/me/y.js' }],
  })
  t.equal(fromFlags.config.plugins.length, 2, 'flags replace the list of the file')
  t.equal(fromFlags.pluginsFolder, '/home/me')

  for (const spec of ['stories15m', 'hf:Qwen/Qwen3-0.6B-GGUF:Q8_0', '/a/b.gguf']) {
    t.equal(load({ flags: ['--model', spec] }).config.model.spec, spec)
  }
  const inHome = load({ yaml: 'model: { spec: ~/models/a.gguf }' }).config.model.spec
  t.equal(inHome, join(homedir(), 'models/a.gguf'))
  t.equal(load({ yaml: 'model: { spec: ~a.gguf }' }).config.model.spec, '/etc/~a.gguf')
})

t.test('settings of the engine are options of llama.cpp as they are declared to be', async (t) => {
  const backendOf = (...flags: readonly string[]) =>
    toEngineSettings(load({ flags: ['--model', 'a.gguf', ...flags] }), {
      name: 'a',
      path: 'a.gguf',
      settings: {},
    }).backend
  const usual = {
    slots: 16,
    batchSize: 512,
    kvCacheType: 'f16',
    mmap: true,
    mlock: false,
    ignoreMemoryCheck: false,
    mmprojOffload: true,
    native: 'ffi',
    poll: 5,
    padBatches: true,
    modelPath: 'a.gguf',
    modelId: 'a',
  }
  t.same(backendOf(), usual, 'what is automatic or none is left to the backend')
  const values =
    '--ctx-size=512 --threads=2 --gpu=off --gpu-layers=3 --kv-cache-type=q8_0 --flash-attention=on ' +
    '--ubatch-size=64 --pooling=mean --kv-unified=on --kv-tokens=1024 --rope-scaling=yarn ' +
    '--rope-freq-base=10000 --rope-freq-scale=0.5 --yarn-orig-ctx=2048 --devices=CUDA0 ' +
    '--split-mode=layer --main-gpu=0 --tensor-split=3,1 --override-tensor=a=CPU --reasoning=off --no-pad-batches'
  const given = backendOf(...values.split(' '))
  t.same(given, {
    ...usual,
    padBatches: false,
    contextSize: 512,
    threads: 2,
    gpu: 'off',
    gpuLayers: 3,
    kvCacheType: 'q8_0',
    flashAttention: true,
    ubatchSize: 64,
    pooling: 'mean',
    kvUnified: 'on',
    kvTokens: 1024,
    rope: { scaling: 'yarn', freqBase: 10_000, freqScale: 0.5, yarnOriginalContext: 2048 },
    placement: {
      devices: ['CUDA0'],
      splitMode: 'layer',
      mainGpu: 0,
      tensorSplit: [3, 1],
      overrideTensors: [{ pattern: 'a', device: 'CPU' }],
    },
    reasoning: false,
  })
})

t.test('a projector that is found need not be used', async (t) => {
  const projector = '/models/mmproj-a.gguf'
  const backendOf = (flags: string[], draft = {}) =>
    toEngineSettings(load({ flags: ['--model', 'a.gguf', ...flags] }), {
      name: 'a',
      path: 'a.gguf',
      projector,
      settings: {},
      ...draft,
    })
  t.match(backendOf([]).backend, { mmprojPath: projector, mmprojOptional: true })
  const given = backendOf(['--mmproj', 'given.gguf']).backend
  t.equal(given['mmprojPath'], '/home/me/given.gguf')
  t.equal(given['mmprojOptional'], undefined, 'one that is asked for has to be')
  t.equal(backendOf(['--mmproj', 'none']).backend['mmprojPath'], undefined)
  t.equal(backendOf([], { draftPath: 'b.gguf' }).draft?.['mmprojPath'], undefined)
})

t.test('a projector of one of several models', (t) => {
  const mmprojOf = (mmproj: string) => {
    const yaml = `models: { served: { a: { spec: a.gguf, mmproj: ${mmproj} } } }`
    return load({ yaml }).config.models.served['a']?.['mmproj']
  }
  t.equal(mmprojOf('none'), null)
  t.equal(mmprojOf('auto'), 'auto')
  t.equal(mmprojOf('given.gguf'), '/etc/given.gguf')
  t.end()
})

t.test('latency limits', async (t) => {
  const limitsOf = (given: Given) => load(given).config.scheduler.slo
  t.same(limitsOf({}), {})
  t.same(limitsOf({ flags: ['--slo', 'ttft:300ms, itl:30ms'] }), { ttft: 300, itl: 30 })
  t.same(limitsOf({ env: { CLLM_SLO: 'ttft:1.5s' } }), { ttft: 1500 })
  const own = { itl: 50, tenants: { 'a.b': { ttft: 200 } }, priorities: { 10: { itl: 20 } } }
  const yaml =
    'scheduler: {slo: {itl: 50ms, tenants: {a.b: {ttft: 0.2s}}, priorities: {10: {itl: 20}}}}'
  t.same(limitsOf({ yaml }), own)
  t.same(limitsOf({ flags: ['--slo', JSON.stringify(own)] }), own)

  const settings = toEngineSettings(load({ yaml, flags: ['--model', 'a.gguf'] }), {
    name: 'a',
    path: 'a.gguf',
    settings: {},
  })
  t.same(settings.policyOptions, { slo: own }, 'the policy gets them')
  t.same(settings.options.sampling, {})
  t.equal(settings.draft, undefined)
  const guessed = { name: 'a', path: 'a.gguf', draftPath: 'b.gguf', settings: {} }
  const flags = ['--model', 'a.gguf', '--speculative', './b.gguf']
  t.match(toEngineSettings(load({ flags }), guessed), {
    backend: { modelPath: 'a.gguf', poll: 0 },
    draft: { modelPath: 'b.gguf', modelId: 'draft', poll: 0, slots: settings.backend['slots'] },
    options: { speculative: 'draft', proposerOptions: {} },
  })
  const qwen = { name: 'q', spec: 'qwen3-0.6b', path: 'q.gguf', settings: {} }
  t.match(toEngineSettings(load({}), qwen).options.sampling, { temperature: 0.6, topK: 20 })

  const wrong = /^--slo: expected limits such as ttft:300ms,itl:30ms/
  for (const text of ['300ms', 'ttft:fast', 'tpot:30ms', 'itl:0ms', 'itl:30', '{"itl":', '[]']) {
    t.match(problemsOf({ flags: ['--slo', text] }), [wrong], text)
  }
  t.match(problemsOf({ yaml: 'scheduler: {slo: {priorities: {high: {itl: 5ms}}}}' }), [
    /scheduler\.slo: .*high/,
  ])
  t.match(problemsOf({ flags: ['--slo', 'itl:30ms', '--batching', 'chunked'] }), [
    /^--slo: .*chunked\+fcfs.*slo/,
  ])
})

t.test('policies', async (t) => {
  const policyOf = (given: Given) => load(given).config.scheduler
  t.match(policyOf({ flags: ['--policy', 'chunked+fcfs'] }), {
    batching: 'chunked',
    order: 'fcfs',
    policy: 'chunked+fcfs',
  })
  t.equal(policyOf({ flags: ['--batching', 'continuous'] }).policy, 'continuous+fcfs')
  const agreeing = ['--policy', 'chunked+fcfs', '--batching', 'chunked']
  t.equal(policyOf({ flags: agreeing }).policy, 'chunked+fcfs')

  const yaml = 'scheduler: {batching: chunked, policy_options: {tokenBudget: 64}}'
  t.match(policyOf({ yaml }), { policy: 'chunked+fcfs', policy_options: { tokenBudget: 64 } })
  const flags = ['--policy', 'continuous+fcfs', '--policy-options', '{}']
  t.equal(policyOf({ yaml, flags }).policy, 'continuous+fcfs')

  const plugin = 'plugins: [mine]\nscheduler: {policy: lifo, policy_options: {tenant.a: 2}}'
  t.match(policyOf({ yaml: plugin }), {
    batching: null,
    order: null,
    policy: 'lifo',
    policy_options: { 'tenant.a': 2 },
  })
  t.equal(
    policyOf({ yaml: plugin, env: { CLLM_BATCHING: 'chunked' } }).policy,
    'chunked+fcfs',
    'a half overrides the policy of a lower layer',
  )
  t.equal(policyOf({ flags: ['--policy', 'adaptive+lifo', '--plugin', 'x'] }).order, 'lifo')

  const cases: readonly (readonly [Given, RegExp])[] = [
    [
      { flags: ['--policy', 'chunked+fcfs', '--batching', 'adaptive'] },
      /^--policy chunked\+fcfs contradicts --batching adaptive$/,
    ],
    [
      { yaml: 'scheduler: {policy: mine,\n order: fcfs}' },
      /^\/etc\/cllm\.yaml:1: scheduler\.policy mine contradicts \/etc\/cllm\.yaml:2: scheduler\.order fcfs$/,
    ],
    [
      { flags: ['--batching', 'chunkd'] },
      /^--batching: There is no policy "chunkd\+fcfs": .*chunked.*; did you mean "chunked\+fcfs"\?$/,
    ],
    [{ flags: ['--order', 'lifo'] }, /^--order: There is no policy "adaptive\+lifo": .*fcfs/],
    [{ flags: ['--policy', 'chunked+lifo'] }, /^--policy: There is no policy "chunked\+lifo"/],
    [
      { flags: ['--policy', 'fcfs'] },
      /^--policy: There is no policy "fcfs": expected batching\+order, of the batchings .*adaptive/,
    ],
    [
      { flags: ['--backend-options', '{"a": [1, {"b": -1e400}]}'] },
      /^--backend-options: expected names with their values, got/,
    ],
    [{ flags: ['--policy-options', '{"tokenBudgt": 3}'] }, /^--policy-options: .*tokenBudgt/],
    [{ flags: ['--model-scheduler', 'best'] }, /^--model-scheduler: .*expected one of lru, turns/],
    [
      { yaml: 'models: {scheduler: turns, scheduler_options: {patience: -1}}' },
      /^\/etc\/cllm\.yaml:1: models\.scheduler_options: .*patience/,
    ],
    [
      { flags: ['--model-scheduler-options', '{"patience": 2}'] },
      /^--model-scheduler-options: .*patience/,
    ],
    [
      { flags: ['--policy-options', '{tokenBudget}'] },
      /^--policy-options: expected names with their values, got "\{tokenBudget\}"$/,
    ],
  ]
  for (const [given, expected] of cases) {
    const problems = problemsOf(given)
    t.match(problems[0], expected)
  }
})

t.test('several models', async (t) => {
  const yaml =
    'models:\n  tiny: stories15m\n  qwen3-0.6b: { spec: ./q.gguf, slots: 4, keep_alive: 5m }\n' +
    '  cache: here\n  aliases: [gpt-4o=tiny, any]\n'
  const { config } = load({ yaml })
  t.same(config.models.served, {
    tiny: { spec: 'stories15m' },
    'qwen3-0.6b': { spec: '/etc/q.gguf', slots: 4, keep_alive: '5m' },
  })
  t.same(config.models.aliases, { 'gpt-4o': 'tiny', any: null })
  t.equal(config.models.cache, '/etc/here')
  const again = load({ yaml: String(toDocument(load({ yaml }))) })
  t.same(again.config, load({ yaml }).config)

  const flags = ['--model', 'a=./x.gguf', '--model=b=stories15m', '--model-alias', '*=b']
  t.same(Object.keys(load({ flags, yaml }).config.models.served), ['a', 'b'])
  t.equal(load({ flags }).config.models.served['a']?.spec, '/home/me/x.gguf')
  t.same(load({ flags: ['--model', './a=b.gguf'] }).config.models.served, {}, 'this is a path')
  t.same(load({ flags: ['--model', 'x.gguf'], yaml: 'models: { a: b }' }).config.models.served, {})
  t.same(load({ env: { CLLM_MODELS: 'a=b, c=d' } }).config.models.served, {
    a: { spec: 'b' },
    c: { spec: 'd' },
  })

  t.same(problemsOf({ flags: ['--model', 'a=b', '--model', 'c'] }), [
    '--model: expected NAME=SPEC for each of several models, got c',
  ])
  const wrong =
    'models:\n  a: { spec: b, slots: 0, slot: 2, toString: 1 }\n  aliases: { x: c }\nmodel: { id: mine }\n'
  t.same(problemsOf({ yaml: wrong }), [
    '/etc/cllm.yaml:2: models.served: a: slots: expected a whole number from 1 to 256, got 0',
    '/etc/cllm.yaml:2: models.served: a: unknown setting slot of a model; did you mean slots?',
    '/etc/cllm.yaml:2: models.served: a: unknown setting toString of a model',
    '/etc/cllm.yaml:4: model.id: has no effect together with /etc/cllm.yaml:2: models.served',
    '/etc/cllm.yaml:3: models.aliases: expected one of a, got c',
  ])
  const unequal =
    'models:\n  a: { spec: b, slots: 8, batch_size: 4 }\n  c: { spec: d, slots: 200 }\nengine: { batch_size: 128 }\n'
  t.same(problemsOf({ yaml: unequal }), [
    '/etc/cllm.yaml:2: models.served: a: batch_size: expected at least one token for each of the 8 slots (/etc/cllm.yaml:2: models.served: a: slots), got 4',
    '/etc/cllm.yaml:4: engine.batch_size: expected at least one token for each of the 200 slots (/etc/cllm.yaml:2: models.served: c: slots), got 128',
  ])
  t.same(problemsOf({ yaml: 'models: { a: { spec: b, chat_template: 5, lora: x=y.gguf } }' }), [
    '/etc/cllm.yaml:1: models.served: a: chat_template: expected a file or a template, got 5',
    '/etc/cllm.yaml:1: models.served: a: lora: expected a list of NAME=PATH[:SCALE], each name once, got "x=y.gguf"',
  ])
  const asOfAll =
    'tensor_split: [3, 1], kv_tokens: null, media_library: lib.so, chat_template: null, mmproj: none'
  const { a } = load({ yaml: `models: { a: { spec: b, ${asOfAll} } }` }).config.models.served
  t.match(a, { tensor_split: ['3', '1'], kv_tokens: 'auto', media_library: '/etc/lib.so' })
  t.match(load({ yaml: 'engine: { media_library: lib.so }' }).config.engine, {
    media_library: '/etc/lib.so',
  })
  t.match(problemsOf({ yaml: 'models: { keep_alve: 5m }' }), [/did you mean models\.keep_alive/])
  t.match(problemsOf({ flags: ['--keep-alive', 'soon'] }), [/expected a number of seconds or a/])
})

t.test('presets', (t) => {
  const yaml = `models:
  presets:
    brief: { from: a, system: Be brief., parameters: { temperature: 0.3, max_tokens: 9, stop: x } }
    qwen2.5-plain: { from: b }
  a: stories15m
  aliases: { b: a }
`
  const { config } = load({ yaml })
  t.same(toPresets(config.models.presets), [
    {
      name: 'brief',
      from: 'a',
      system: 'Be brief.',
      maxTokens: 9,
      sampling: { temperature: 0.3 },
      stop: ['x'],
    },
    { name: 'qwen2.5-plain', from: 'b', sampling: {} },
  ])
  const dotted =
    'cluster: { router_options: { a.b: 1 } }\nscheduler: { speculative_options: { c.d: 2 } }'
  const { cluster, scheduler } = load({ yaml: dotted }).config
  t.same([cluster.router_options, scheduler.speculative_options], [{ 'a.b': 1 }, { 'c.d': 2 }])
  const wrong = {
    p: { from: 'c', sytem: 'x', parameters: { temprature: 1 } },
    q: { parameters: { top_p: 2 } },
  }
  const flags = ['--model', 'a=stories15m', '--presets', JSON.stringify(wrong)]
  const problems = problemsOf({ flags })
  for (const problem of [
    /presets: p: unknown setting sytem; did you mean system/,
    /presets: p: unknown parameter temprature; did you mean temperature/,
    /presets: q: from: expected the name of a model, got/,
    /presets: q: parameters: top_p: expected a number from 0 to 1, instead got 2/,
    /presets: expected one of a, got c/,
  ]) {
    t.ok(
      problems.some((one) => problem.test(one)),
      String(problem),
    )
  }
  t.end()
})

t.test('every kind of problem says what was expected, what came, and where', async (t) => {
  const cases: readonly (readonly [Given, string])[] = [
    [{ flags: ['--prot', '9000'] }, 'unknown flag --prot; did you mean --port?'],
    [{ flags: ['--zzzzzzzz=1'] }, 'unknown flag --zzzzzzzz'],
    [{ flags: ['--toString'] }, 'unknown flag --toString'],
    [{ flags: ['-p', '9000'] }, 'unknown flag -p'],
    [{ flags: ['-np', '4'] }, 'unknown flag -np; did you mean --slots?'],
    [{ flags: ['--max-model-len=4096'] }, 'unknown flag --max-model-len; did you mean --ctx-size?'],
    [{ flags: ['stories15m'] }, 'unexpected argument stories15m; --model names the model'],
    [{ flags: ['--port'] }, '--port: expected a value (PORT)'],
    [{ flags: ['--host='] }, '--host: expected a value (ADDRESS)'],
    [{ flags: ['--host', '--mlock'] }, '--host: expected a value (ADDRESS), got the flag --mlock'],
    [{ flags: ['--no-mmap=1'] }, '--no-mmap: takes no value'],
    [{ flags: ['--mmap=maybe'] }, '--mmap: expected true or false, got "maybe"'],
    [{ flags: ['--port', '3.5'] }, '--port: expected a whole number from 0 to 65535, got 3.5'],
    [
      { flags: ['--port', '8080x'] },
      '--port: expected a whole number from 0 to 65535, got "8080x"',
    ],
    [
      { flags: ['--kv-cache-type', 'q3_0'] },
      '--kv-cache-type: expected f16, q8_0, f32, bf16, q4_0, q4_1, iq4_nl, q5_0 or q5_1, got "q3_0"',
    ],
    [
      { flags: ['--config', 'no.yaml'] },
      'the configuration file no.yaml cannot be read: there is no such file or folder',
    ],
    [{ env: { CLLM_SLOTS: '257' } }, 'CLLM_SLOTS: expected a whole number from 1 to 256, got 257'],
    [
      { env: { CLLM_THREADS: 'all' } },
      'CLLM_THREADS: expected a whole number from 1 to 512, or auto, got "all"',
    ],
    [
      { yaml: 'server:\n  prot: 1' },
      '/etc/cllm.yaml:2: unknown key server.prot; did you mean server.port?',
    ],
    [
      { yaml: 'engine:\n  cache_disk: /d' },
      '/etc/cllm.yaml:2: unknown key engine.cache_disk; did you mean cache.disk?',
    ],
    [{ yaml: 'port: 1' }, '/etc/cllm.yaml:1: unknown key port; did you mean server.port?'],
    [{ yaml: 'sever:\n  port: 1' }, '/etc/cllm.yaml:1: unknown key sever; did you mean server?'],
    [{ yaml: '\n__proto__: {a: 1}' }, '/etc/cllm.yaml:2: unknown key __proto__'],
    [
      { yaml: 'server: 8080' },
      '/etc/cllm.yaml:1: server: expected keys with their values, got 8080',
    ],
    [
      { yaml: 'engine:\n  backend_options: {a: [1, 1e400]}' },
      '/etc/cllm.yaml:2: expected a finite number, got 1e400',
    ],
    [{ yaml: 'server: {port: .inf}' }, '/etc/cllm.yaml:1: expected a finite number, got .inf'],
    [
      { flags: ['--port', '1e400'] },
      '--port: expected a whole number from 0 to 65535, got Infinity',
    ],
    [
      { yaml: 'server:\n  port: *port' },
      '/etc/cllm.yaml:2: expected an alias of an anchor before it, got *port',
    ],
    [{ yaml: '- 1' }, '/etc/cllm.yaml:1: expected keys with their values, got [1]'],
    [
      { yaml: 'server:\n  port: "8080"' },
      '/etc/cllm.yaml:2: server.port: expected a whole number from 0 to 65535, got "8080"',
    ],
    [
      { yaml: 'server:\n  port:' },
      '/etc/cllm.yaml:2: server.port: expected a whole number from 0 to 65535, got nothing',
    ],
    [
      { yaml: 'engine: {mmap: yes}' },
      '/etc/cllm.yaml:1: engine.mmap: expected true or false, got "yes"',
    ],
    [
      { yaml: 'plugins: [{use: a, optoins: {}}]' },
      '/etc/cllm.yaml:1: plugins: expected a list of plugin names or of { use, options }, got [{"use":"a","optoins":{}}]',
    ],
    [
      { yaml: 'http: {timeout_ms: soon}' },
      '/etc/cllm.yaml:1: http.timeout_ms: expected a number of milliseconds from 0 up, got "soon"',
    ],
    [
      { yaml: 'model:\n  max_context_length: -1' },
      '/etc/cllm.yaml:2: model.max_context_length: expected a whole number from 1 up, or auto, got -1',
    ],
    [
      { flags: ['--batch-size', '4'] },
      '--batch-size: expected at least one token for each of the 16 slots (engine.slots), got 4',
    ],
    [
      { flags: ['--bodies-limit', '1000000', '--body-limit', '1048576'] },
      '--bodies-limit: expected at least the largest body of one request (--body-limit: 1048576), got 1000000',
    ],
    [
      { flags: ['--batch-share', '0.1'] },
      '--batch-share: expected --batches, as it is the share of batches on this machine',
    ],
    [
      { flags: ['--kv-cache-type', 'q8_0', '--flash-attention', 'off'] },
      '--flash-attention: expected true or auto, got false: --kv-cache-type q8_0 needs flash attention',
    ],
  ]
  for (const [given, expected] of cases) t.same(problemsOf(given), [expected])

  const [syntax = ''] = problemsOf({ yaml: 'server:\n  port: [1\nmodel: 2\n' })
  t.match(syntax, /^\/etc\/cllm\.yaml:3:1: \S/, 'line and column')
  t.match(
    problemsOf({ yaml: 'server:\n  port: 1\n  port: 2\n' })[0],
    /^\/etc\/cllm\.yaml:3:3: .*unique/,
  )
})

t.test('all problems at once', async (t) => {
  const unset = problemsOf({ flags: ['--port', '', 'stories15m'] })
  t.match(unset, [/^--port: expected a value/, /^unexpected argument stories15m/])
  const problems = problemsOf({
    yaml: 'server: {prot: 1}\nengine: {slots: many}\n',
    env: { CLLM_GPU: 'tpu' },
    flags: ['--modle', 'x', '--port', '70000', '--order', 'last'],
  })
  t.equal(problems.length, 6)
  for (const part of ['server.prot', 'engine.slots', 'CLLM_GPU', '--modle', '--port', '--order']) {
    t.equal(problems.filter((problem) => problem.includes(part)).length, 1, part)
  }
})

t.test('an unknown variable is a warning', async (t) => {
  const { warnings } = load({ env: { CLLM_PROT: '1', CLLM_QQQQQQQQQQ: '1', OTHER: '1' } })
  t.same(warnings, [
    'unknown environment variable CLLM_PROT; did you mean CLLM_PORT?',
    'unknown environment variable CLLM_QQQQQQQQQQ',
  ])
})

t.test("the original's production advice starts this server as it is", async (t) => {
  const yaml = `
server:
  host: "0.0.0.0"
  port: 8080
  num_threads: 8          # 增加工作线程数
  min_threads: 4

model:
  path: "/models/qwen3-0.6b-q4_k_m.gguf"
  max_context_length: 2048
  quantization: "q4_k_m"

backend:
  llama_cpp:
    n_batch: 512
    n_threads: 4
    n_gpu_layers: 99      # 使用GPU加速
    n_seq_max: 8          # 增加最大序列数

scheduler:
  max_batch_size: 32
  batch_timeout_ms: 500
  request_timeout: 60.0
`
  const { config, sources, warnings } = load({ yaml })
  t.match(config, {
    server: { host: '0.0.0.0', port: 8080 },
    model: { spec: '/models/qwen3-0.6b-q4_k_m.gguf' },
    engine: { ctx_size: 2048, batch_size: 512, threads: 4, gpu_layers: 99, slots: 8 },
    scheduler: { request_timeout: 60, policy: defaultPolicyName },
  })
  t.equal(sources.get('engine.slots'), '/etc/cllm.yaml:18 (backend.llama_cpp.n_seq_max)')
  t.same(warnings, [
    '/etc/cllm.yaml: settings of the original server that have no effect: server.num_threads, ' +
      'server.min_threads, model.quantization, scheduler.max_batch_size, ' +
      'scheduler.batch_timeout_ms',
    'WARNING! /etc/cllm.yaml:3: server.host: 0.0.0.0 can be reached by other machines, and ' +
      'without API keys any client may use the server. Set --api-keys FILE or --api-key KEY',
  ])
})

t.test("the original's other keys", async (t) => {
  const yaml = `
model: {default_max_tokens: 1024, temperature: 0.6, top_k: 50, top_p: 0.9}
api: {defaults: {temperature: 0.8, prompt: ""}}
http: {timeout_ms: 120000}
queue: {max_size: 1000}
backend: {type: llama_cpp, llama_cpp: {n_threads: 0, use_mmap: false, use_mlock: true}}
logging: {level: warn, file: "", max_files: 5}
`
  const { config, warnings } = load({ yaml })
  t.match(config, {
    api: { defaults: { max_tokens: 1024, temperature: 0.8, top_k: 50, top_p: 0.9 } },
    scheduler: { request_timeout: 120, max_queued_requests: 1000 },
    engine: { threads: 'auto', mmap: false, mlock: true },
    logging: { level: 'warn', file: null },
  })
  t.equal(warnings.length, 2)
  t.match(warnings[0], /: api\.defaults\.prompt, logging\.max_files$/)
  t.equal(
    warnings[1],
    '/etc/cllm.yaml:2: model.temperature: overridden by api.defaults.temperature, which has ' +
      'another value',
  )
  t.match(load({ yaml: 'backend: {type: libtorch}' }).warnings, [/backend\.type$/])
  t.same(load({ yaml: 'model: {path: a.gguf, spec: a.gguf}' }).warnings, [], 'the same twice')
})

t.test('what `cllm config` prints is a configuration file of the same meaning', async () => {
  const flag = (name: string, value: fc.Arbitrary<unknown>) =>
    fc.option(
      value.map((given) => [`--${name}`, String(given)]),
      { nil: [] },
    )
  const flags = fc
    .tuple(
      flag('port', fc.integer({ min: 0, max: 65_535 })),
      flag('threads', fc.constantFrom('auto', 1, 8)),
      flag('flash-attention', fc.constantFrom('on', 'off', 'auto')),
      flag('request-timeout', fc.double({ min: 0, max: 1e6, noNaN: true })),
      flag(
        'model-id',
        fc.string({ minLength: 1 }).filter((id) => /^\s*[^\s-]/.test(id)),
      ),
      flag('policy', fc.constantFrom('chunked+fcfs', 'mine', 'adaptive+mine')),
      flag(
        'policy-options',
        fc.json().filter((json) => json.startsWith('{')),
      ),
    )
    .map((all) => [...all.flat(), '--plugin', './p.js', '--plugin', 'q'])
  fc.assert(
    fc.property(flags, (flags) => {
      const loaded = load({ flags })
      const again = load({ yaml: String(toDocument(loaded)) })
      assert.deepEqual(again.config, loaded.config)
      assert.deepEqual(again.warnings, [])
    }),
    { numRuns: 50 },
  )
})

t.test('names of models and aliases with slashes', (t) => {
  const flags = ['--models', 'Qwen/Qwen3:Q8=a.gguf,b=b.gguf', '--model-alias', 'meta/llama=b']
  const { models } = load({ flags }).config
  t.same(Object.keys(models.served), ['Qwen/Qwen3:Q8', 'b'])
  t.same(models.aliases, { 'meta/llama': 'b' })
  t.throws(() => load({ flags: ['--models', '=a.gguf'] }), /names with their specs/)
  const named = load({ flags: ['--model', 'Qwen/Qwen3=b.gguf'] }).config.models.served
  t.same(named, { 'Qwen/Qwen3': { spec: '/home/me/b.gguf' } })
  const folder = t.testdir({ models: { 'a=b.gguf': '' } })
  const file = join(folder, 'models/a=b.gguf')
  for (const path of [file, './models/a=b.gguf', 'a/b/c=d.gguf', '~/models/c=d.gguf']) {
    t.same(load({ flags: ['--model', path] }).config.models.served, {}, `${path} is a path`)
  }
  t.end()
})

t.test('a chat template of plain words is taken as it is', (t) => {
  const flags = ['--chat-template', 'This is not a chat template']
  const { config, warnings } = load({ flags })
  t.equal(readChatTemplate(config.model.chat_template), 'This is not a chat template')
  t.match(warnings, [/^--chat-template: .* every prompt is "This is not a chat template"/])
  t.equal(
    load({ flags: ['--chat-template', 'my own.jinja'] }).config.model.chat_template,
    '/home/me/my own.jinja',
  )
  t.end()
})

t.test('no start waits for what a pipe does not say', (t) => {
  const pipe = join(t.testdir({}), 'pipe')
  if (spawnSync('mkfifo', [pipe]).status !== 0) return t.end()
  const message = /cannot be read: expected a file at .*pipe, found a pipe/
  const refused = { code: 'invalid_configuration', message }
  t.throws(() => readKeyFile(pipe), refused)
  t.throws(() => loadConfig({ argv: ['--config', pipe], env: {} }), refused)
  const template = { code: 'invalid_configuration', message: /found a pipe/ }
  t.throws(() => readChatTemplate(pipe), template)
  const { config } = load({ flags: ['--tls-cert', '/dev/null', '--tls-key', pipe] })
  t.throws(() => toTransportOptions(config, undefined, true), refused, 'and which file it is')
  // While the last file that was looked at is a pipe, Node 20 leaves links in the paths of what it loads.
  rmSync(pipe)
  statSync('.')
  t.end()
})

t.test('chat templates by the names that llama-server knows', async (t) => {
  const { config } = load({ flags: ['--chat-template', 'llama3'] })
  t.equal(config.model.chat_template, 'llama3', 'no path')
  t.equal(readChatTemplate('llama3'), namedTemplate('llama3'))
  const unknown = { code: 'invalid_configuration', message: /nor one of chatml, .*zephyr/ }
  t.throws(() => readChatTemplate('/nowhere/llama7'), unknown)

  const compile = await createTemplateCompiler(silentLogger)
  const messages = [
    { role: 'system', content: ' S ' },
    { role: 'user', content: 'U' },
    { role: 'assistant', content: 'A ' },
    { role: 'user', content: 'V' },
  ]
  const rendered = (name: string) =>
    compile(namedTemplate(name) ?? '').render({ messages, add_generation_prompt: true })
  const turn = (who: string, text: string) =>
    `<|START_OF_TURN_TOKEN|><|${who}_TOKEN|>${text}<|END_OF_TURN_TOKEN|>`
  const header = (role: string) => `<|start_header_id|>${role}<|end_header_id|>\n\n`
  // what llama.cpp's llm_chat_apply_template makes of them
  const wanted: Record<string, string> = {
    chatml:
      '<|im_start|>system\n S <|im_end|>\n<|im_start|>user\nU<|im_end|>\n' +
      '<|im_start|>assistant\nA <|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n',
    'command-r':
      turn('SYSTEM', 'S') +
      turn('USER', 'U') +
      turn('CHATBOT', 'A') +
      turn('USER', 'V') +
      '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>',
    deepseek:
      ' S ### Instruction:\nU\n### Response:\nA \n<|EOT|>\n### Instruction:\nV\n### Response:\n',
    deepseek2: ' S \n\nUser: U\n\nAssistant: A <｜end▁of▁sentence｜>User: V\n\nAssistant:',
    deepseek3: ' S \n\n<｜User｜>U<｜Assistant｜>A <｜end▁of▁sentence｜><｜User｜>V<｜Assistant｜>',
    exaone3:
      '[|system|]S[|endofturn|]\n[|user|]U\n[|assistant|]A[|endofturn|]\n[|user|]V\n[|assistant|]',
    falcon3: '<|system|>\n S \n<|user|>\nU\n<|assistant|>\nA \n<|user|>\nV\n<|assistant|>\n',
    gemma:
      '<start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n' +
      '<start_of_turn>user\nV<end_of_turn>\n<start_of_turn>model\n',
    granite:
      '<|start_of_role|>system<|end_of_role|> S <|end_of_text|>\n' +
      '<|start_of_role|>user<|end_of_role|>U<|end_of_text|>\n' +
      '<|start_of_role|>assistant<|end_of_role|>A <|end_of_text|>\n' +
      '<|start_of_role|>user<|end_of_role|>V<|end_of_text|>\n' +
      '<|start_of_role|>assistant<|end_of_role|>',
    llama2: '[INST]  S \nU [/INST]A </s>[INST] V [/INST]',
    'llama2-sys': '[INST] <<SYS>>\n S \n<</SYS>>\n\nU [/INST]A </s>[INST] V [/INST]',
    llama3:
      `${header('system')}S<|eot_id|>${header('user')}U<|eot_id|>` +
      `${header('assistant')}A<|eot_id|>${header('user')}V<|eot_id|>${header('assistant')}`,
    'mistral-v1': ' [INST]  S \n\nU [/INST] A </s> [INST] V [/INST]',
    'mistral-v3': '[INST]  S \n\nU[/INST] A</s>[INST] V[/INST]',
    'mistral-v3-tekken': '[INST] S \n\nU[/INST]A </s>[INST]V[/INST]',
    'mistral-v7': '[SYSTEM_PROMPT]  S [/SYSTEM_PROMPT][INST] U[/INST] A </s>[INST] V[/INST]',
    'mistral-v7-tekken': '[SYSTEM_PROMPT] S [/SYSTEM_PROMPT][INST]U[/INST]A </s>[INST]V[/INST]',
    openchat:
      ' S <|end_of_turn|>GPT4 Correct User: U<|end_of_turn|>GPT4 Correct Assistant: A <|end_of_turn|>' +
      'GPT4 Correct User: V<|end_of_turn|>GPT4 Correct Assistant:',
    phi3: '<|system|>\n S <|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA <|end|>\n<|user|>\nV<|end|>\n<|assistant|>\n',
    phi4:
      '<|im_start|>system<|im_sep|> S <|im_end|><|im_start|>user<|im_sep|>U<|im_end|>' +
      '<|im_start|>assistant<|im_sep|>A <|im_end|><|im_start|>user<|im_sep|>V<|im_end|>' +
      '<|im_start|>assistant<|im_sep|>',
    vicuna: ' S \n\nUSER: U\nASSISTANT: A </s>\nUSER: V\nASSISTANT:',
    zephyr:
      '<|system|>\n S <|endoftext|>\n<|user|>\nU<|endoftext|>\n<|assistant|>\nA <|endoftext|>\n' +
      '<|user|>\nV<|endoftext|>\n<|assistant|>\n',
  }
  t.same(templateNames, Object.keys(wanted))
  for (const [name, text] of Object.entries(wanted)) t.equal(rendered(name), text, name)
})

t.test('the server of a cluster is named as its client reads it', async (t) => {
  const secret = (cluster: string) => problemsOf({ env: { CLLM_CLUSTER: cluster } })
  for (const url of [
    'localhost:6379',
    'valkey://u:SECRET@h',
    'u:SECRET@10.0.0.5',
    'redis://h/SECRET',
  ]) {
    const [problem, ...others] = secret(url)
    t.match(problem, /^CLLM_CLUSTER: expected a URL such as redis:\/\/host:6379/, url)
    t.notMatch(problem, 'SECRET')
    t.same(others, [])
  }
  for (const url of ['redis://10.0.0.5', 'rediss://u:p@s@h:1/2', '']) t.same(secret(url), [], url)
  const withoutTls = { env: { CLLM_CLUSTER: 'redis://u:SECRET@h', CLLM_CLUSTER_CA: 'ca.pem' } }
  t.same(problemsOf(withoutTls), [
    'CLLM_CLUSTER_CA: is for TLS, and CLLM_CLUSTER does not begin with rediss://',
  ])
})

t.test('responses are in a folder, or with the cluster', (t) => {
  const at = (...flags: string[]) =>
    load({ flags: ['--responses', ...flags] }).config.server.responses
  t.equal(at('cluster', '--cluster', 'redis://h'), 'cluster')
  t.match(at('./cluster', '--cluster', 'redis://h'), /^\/.*\/cluster$/)
  t.same(problemsOf({ flags: ['--responses', 'cluster'] }), [
    '--responses: responses of a cluster need --cluster URL',
  ])
  t.end()
})

t.test('a Kubernetes service with our name sets nothing', async (t) => {
  const { config, warnings } = load({ env: { CLLM_PORT: 'tcp://10.0.0.1:80' } })
  t.equal(config.server.port, 8080)
  t.match(warnings, [/^CLLM_PORT=tcp:.* passed over: set enableServiceLinks: false/])
  t.equal(warnings.length, 1)
})

t.test('a command without HTTP wants no keys for an address', async (t) => {
  const env = { CLLM_HOST: '0.0.0.0' }
  t.match(problemsOf({ env }), [/can be reached by other machines/])
  t.equal(loadConfig({ argv: [], env, listens: false }).config.server.host, '0.0.0.0')
})
