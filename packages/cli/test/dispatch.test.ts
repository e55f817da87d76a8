import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import {
  adminProtocol,
  anthropicProtocol,
  loadMetrics,
  metricsProtocol,
  metricTable,
  nativeProtocol,
  openAiProtocol,
} from '@cllm/http-koa'
import { stripVTControlCharacters } from 'node:util'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { options } from '../src/config/options/schema.js'
import { loadConfig } from '../src/config/load-config.js'
import { catalog, findEntry } from '../src/models/catalog/catalog.js'
import { inside as run } from './inside.js'
import { LogLines, createLogger } from '../src/process/logger.js'

t.test('help and version', async (t) => {
  const { stdout, code } = await run(['--help'])
  t.equal(code, 0)
  for (const name of ['serve', 'config', 'models', 'pull', 'model synth']) {
    t.match(stdout, new RegExp(`^  ${name} `, 'm'))
    const help = await run([...name.split(' '), '--help'])
    t.equal(help.code, 0)
    t.match(help.stdout, `Usage: cllm ${name}`)
    t.equal(help.stderr, '')
  }
  t.same(await run(['help']), await run(['-h']))
  for (const name of ['pull', 'keys add', 'keys', 'cluster']) {
    t.same(await run(['help', ...name.split(' ')]), await run([...name.split(' '), '--help']), name)
  }
  t.match(await run(['help', 'serv']), {
    code: 2,
    stderr: /unknown command serv; did you mean serve/,
  })
  const group = await run(['bench', '--help'])
  t.match(group, { code: 0, stdout: /^Usage: cllm bench <command>/, stderr: '' })
  t.match(group.stdout, /^ {2}bench serve /m)
  t.notMatch(group.stdout, /^ {2}serve /m)
  t.match(stdout, /^Serve:\n {2}serve .*\n/m)
  const [few, all] = [await run(['serve', '-h']), await run(['serve', '--help-all'])]
  t.match(few.stdout, /`cllm serve --help-all` lists all \d+ flags/)
  t.ok(few.stdout.split('\n').length < 40 && all.stdout.length > 5 * few.stdout.length)
  const { version } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  ) as { version: string }
  for (const asked of ['--version', '-v', 'version']) {
    t.same(await run([asked]), { code: 0, stdout: `${version}\n`, stderr: '' })
  }
})

t.test('wrong command lines', async (t) => {
  const nothing = await run([])
  t.match(nothing, { code: 2, stdout: '', stderr: /^Usage: cllm/ })
  const cases: readonly (readonly [string[], string])[] = [
    [['srve', '--port', '1'], 'unknown command srve; did you mean serve?'],
    [['model', 'sinth'], 'unknown command model sinth; did you mean model synth?'],
    [['model'], 'model alone is no command; did you mean models?\n\nUsage: cllm model <command>'],
    [['keys'], 'keys alone is no command\n\nUsage: cllm keys <command>'],
    [['gpu'], 'gpu alone is no command\n\nUsage: cllm gpu <command>'],
    [
      ['bench', 'srve'],
      'unknown command bench srve; did you mean bench serve?\n\nUsage: cllm bench <command>',
    ],
    [['toString'], 'unknown command toString\n'],
    [['ls'], 'unknown command ls; did you mean list?\n'],
    [['create', 'a', '-f', 'Modelfile'], 'unknown command create, but POST /api/create of a'],
    [['serve', '--jinja'], 'unknown flag --jinja: docs/coming-from.md says what takes its place'],
    [['config', '--prt', '1'], 'unknown flag --prt; did you mean --port?\n'],
    [['config', '--changd'], 'unknown flag --changd; did you mean --changed?\n'],
    [['run', '--slts', '3'], 'unknown flag --slts; `cllm serve` has --slots;'],
    [['list', '--max-tokens', '20'], 'unknown flag --max-tokens; `cllm serve` has --default-max'],
    [['serve', '--temperature', '0'], 'did you mean --default-temperature?\n'],
    [['run', '--temperature', '0'], 'unknown flag --temperature; did you mean --parameter?'],
    [['list', '--context-size', '9'], 'unknown flag --context-size\n'],
    [['list', '--constructor'], 'unknown flag --constructor\n'],
    [['run', 'a', 'b', '--parameter', 'toString=1'], 'unknown parameter toString: expected'],
    [
      ['bench', 'serve', '--timeout', '600h'],
      '--timeout: expected a time such as 500ms, 30s or 2m, at most 596h, got',
    ],
    [['serve', '--slots', '0'], '--slots: expected a whole number from 1 to 256, got 0\n'],
  ]
  for (const [argv, message] of cases) {
    const { code, stdout, stderr } = await run(argv)
    t.equal(code, 2, argv.join(' '))
    t.equal(stdout, '')
    t.ok(stderr.startsWith('error: ') && stderr.includes(message), stderr)
    t.notMatch(stderr, /\n +at /, 'no stack')
  }
})

t.test('cllm config', async (t) => {
  const folder = t.testdir({ 'cllm.yaml': 'server:\n  port: 9\n  num_threads: 8\n' })
  const file = join(folder, 'cllm.yaml')
  const yaml = await run(['config', '--config', file, '--slots', '2'], { CLLM_GPU: 'off' })
  t.equal(yaml.code, 0)
  t.ok(yaml.stdout.includes(`\n  port: 9 # ${file}:2\n`), yaml.stdout)
  t.match(yaml.stdout, /\n {2}slots: 2 # --slots\n/)
  t.match(yaml.stdout, /\n {2}gpu: off # CLLM_GPU\n/)
  t.match(yaml.stdout, /\n {2}host: 127\.0\.0\.1 # default\n/)
  t.match(yaml.stdout, /\n {2}lora: \[\] # default\n/)
  t.match(yaml.stdout, /\n {2}protocol_options: \{\} # default\n/)
  t.match(yaml.stderr, /^warning: .*: server\.num_threads\n$/)

  const json = await run(['config', '--json', '--config', file, '--slots', '2'], {
    CLLM_GPU: 'off',
  })
  const { config, sources } = JSON.parse(json.stdout) as Record<string, Record<string, unknown>>
  t.same(config, parse(yaml.stdout))
  t.equal(sources?.['engine.slots'], '--slots')

  const flags = ['--changed', '--config', file, '--host', '127.0.0.1', '--api-key', 'SECRET']
  const changed = await run(['config', ...flags], { CLLM_GPU: 'off', CLLM_MODELS: 'a=b' })
  t.equal(
    changed.stdout,
    `server:
  port: 9 # ${file}:2
engine:
  gpu: off # CLLM_GPU
security:
  api_key: null # --api-key, hidden
models:
  # CLLM_MODELS
  served:
    a:
      spec: b
`,
    'what has its default value is left out, whoever gave it',
  )
  const one = await run(['config', '--changed', '--json', '--slots', '2'])
  t.same(JSON.parse(one.stdout), {
    config: { engine: { slots: 2 } },
    sources: { 'engine.slots': '--slots' },
  })
})

t.test('the logger', async (t) => {
  const lines = (stream: PassThrough) =>
    String(stream.read() ?? '')
      .split('\n')
      .slice(0, -1)
  const json = new PassThrough()
  const quiet = createLogger({ level: 'warn', file: null }, { isTTY: false, destination: json })
  quiet.info({}, 'not this')
  quiet.warn({ slots: 3 }, 'this')
  const written = lines(json)
  t.equal(written.length, 1)
  t.match(JSON.parse(written[0] ?? ''), { msg: 'this', slots: 3, level: 40 })

  const terminal = new PassThrough()
  const readable = createLogger(
    { level: 'debug', file: null },
    { isTTY: true, destination: terminal },
  )
  const told = (fields: Readonly<Record<string, unknown>>, message: string) => {
    readable.info(fields, message)
    return stripVTControlCharacters(lines(terminal).join('\n'))
  }
  readable.debug({}, 'for a person')
  t.match(lines(terminal)[0], /^\S*\d\d:\d\d:\d\d\S* debug for a person$/)
  t.match(told({ ms: 8179.826, file: 'a\u001B[2J' }, 'loaded'), / loaded ms=8180 file=a \[2J$/)
  t.match(told({ err: new Error('gone') }, 'failed'), /failed\nError: gone\n +at /)
  readable.error({ err: new Error('of a \u001B[2J') }, 'wrong: \u009B31m,\n  twice')
  const hostile = lines(terminal).join('\n')
  t.match(hostile, /wrong: {2}31m,\n {2}twice\nError: of a {2}\[2J\n/)
  const request = {
    requestId: '0123456789',
    method: 'POST',
    path: '/generate',
    status: 200,
    ms: 31_840,
  }
  const tokens = { model: 'm', promptTokens: 24, cachedTokens: 8, generatedTokens: 17 }
  const figures = { ...tokens, ttftMs: 612.3, tokensPerSecond: 21.4, finish: 'stop' }
  t.match(
    told({ ...request, ...figures }, 'request'),
    / POST \/generate 200 31\.8 s · m · 24 \(8 cached\) → 17 tokens · TTFT 612 ms · 21\.4 tok\/s · stop id=0123456789$/,
  )
  t.match(
    told({ ...request, cut: true }, 'request'),
    / 200 31\.8 s · the client left id=0123456789$/,
  )

  const file = join(t.testdir({}), 'logs', 'cllm.log')
  createLogger({ level: 'info', file }, { isTTY: true }).error({}, 'into the file')
  t.match(JSON.parse(readFileSync(file, 'utf8')), { msg: 'into the file', level: 50 })
  const below = join(file, 'below')
  const refused = { code: 'invalid_configuration', message: /the log file cannot be opened/ }
  t.throws(() => createLogger({ level: 'info', file: below }, { isTTY: true }), refused)
})

t.test('a full disk loses lines, and nothing else', (t) => {
  let [text, notes, free] = ['', '', 100]
  const lines = new LogLines(9, (fd, bytes) => {
    const part = String(Buffer.from(bytes.subarray(0, free)))
    if (fd === 2) return (notes += String(Buffer.from(bytes))).length
    if (free <= 0) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' })
    free -= part.length
    text += part
    return part.length
  })
  lines.write('one\n')
  free = 2
  for (const lost of ['torn\n', 'lost\n']) lines.write(lost)
  t.equal(notes, 'lines of the log are lost: no space left\n', 'said once')
  free = 100
  for (const line of ['two\n', 'three\n']) lines.write(line)
  t.equal(text, 'one\nto\ntwo\nthree\n', 'the next line is whole')
  t.end()
})

t.test('keys are never logged, and what clients sent only when asked for', (t) => {
  const logged = (content: boolean): string => {
    const stream = new PassThrough()
    const logger = createLogger(
      { level: 'debug', file: null, content },
      { isTTY: false, destination: stream },
    )
    const headers = { authorization: 'KEY', 'x-api-key': 'KEY' }
    logger.info({ headers, req: { headers }, apiKey: 'KEY', config: { api_key: 'KEY' } }, 'a')
    logger.debug({ prompt: 'WORDS', request: { messages: ['WORDS'] }, refusal: 'WORDS' }, 'b')
    let text = ''
    // all at once until Node 24, line by line since
    for (let part; (part = stream.read() as Buffer | null) !== null;) text += String(part)
    return text
  }
  for (const content of [true, false]) t.notMatch(logged(content), 'KEY')
  t.equal(logged(true).split('WORDS').length - 1, 3)
  t.notMatch(logged(false), 'WORDS')
  t.match(logged(false), 'redacted')
  t.end()
})

const read = (path: string): string =>
  readFileSync(new URL(`../../../deploy/${path}`, import.meta.url), 'utf8')

const cluster = 'kubernetes/cluster'
const files = [
  'Dockerfile',
  'Dockerfile.cuda',
  'compose.yaml',
  'systemd/cllm.service',
  'kubernetes/cllm.yaml',
  `${cluster}/front.yaml`,
  `${cluster}/worker.yaml`,
]
const seconds = (text: string | undefined): number => Number.parseInt(text ?? '', 10)

t.test('deployments set what can be set, and ask for routes that there are', async (t) => {
  const variables = new Set(options.map(({ env }) => env))
  const routes = new Set(
    [nativeProtocol(), adminProtocol()]
      .flatMap(({ routes: all = [] }) => all)
      .map(({ path }) => path),
  )
  for (const file of files) {
    const text = read(file)
    for (const [variable] of text.matchAll(/\bCLLM_[A-Z_]+/g)) {
      t.ok(variables.has(variable), `${file}: ${variable}`)
    }
    for (const [path] of text.matchAll(/\/health\/\w+/g)) t.ok(routes.has(path), `${file}: ${path}`)
    t.notMatch(text, 'tinyllama', `${file}: the 2-bit model is for trying things out`)
  }
})

t.test('nobody is killed while requests may finish', async (t) => {
  const unit = read('systemd/cllm.service')
  const setting = (name: string) => new RegExp(`\\b${name}=(\\S+)`).exec(unit)?.[1]
  t.ok(seconds(setting('TimeoutStopSec')) > seconds(setting('CLLM_DRAIN_TIMEOUT')) + 2)
  for (const name of ['NoNewPrivileges', 'DynamicUser']) t.equal(setting(name), 'yes')
  t.equal(setting('ProtectSystem'), 'strict')

  const compose = parse(read('compose.yaml')) as {
    services: { cllm: { stop_grace_period: string; environment: Record<string, string> } }
  }
  const { stop_grace_period: grace, environment } = compose.services.cllm
  t.ok(seconds(grace) > seconds(environment['CLLM_DRAIN_TIMEOUT']) + 2)

  const [deployment] = documentsOf<Deployment>('kubernetes/cllm.yaml')
  const { terminationGracePeriodSeconds, containers, securityContext } =
    deployment!.spec.template.spec
  const [container] = containers
  const drain = container.env.find(({ name }) => name === 'CLLM_DRAIN_TIMEOUT')?.value
  const sleep = container.lifecycle!.preStop.exec.command[1]
  t.ok(terminationGracePeriodSeconds > seconds(drain) + seconds(sleep) + 2)
  t.equal(securityContext.runAsNonRoot, true)
  t.match(
    deployment,
    { spec: { strategy: { type: 'Recreate' } } },
    'two pods cannot have the volume',
  )
  t.match(container.securityContext, {
    readOnlyRootFilesystem: true,
    allowPrivilegeEscalation: false,
  })
  t.equal(container.startupProbe.httpGet.path, '/health/ready')
  t.equal(container.livenessProbe.httpGet.path, '/health/live')
  for (const file of ['front.yaml', 'worker.yaml']) {
    const [process] = documentsOf<Deployment>(`${cluster}/${file}`)
    const { spec } = process!.spec.template
    const [{ env, lifecycle }] = spec.containers
    const limit = env.find(({ name }) => name === 'CLLM_DRAIN_TIMEOUT')?.value
    const pause = lifecycle?.preStop.exec.command[1] ?? '0'
    t.ok(spec.terminationGracePeriodSeconds > seconds(limit) + seconds(pause) + 2, file)
  }
  const shutTight = {
    readOnlyRootFilesystem: true,
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
  }
  const [picker] = documentsOf<Deployment>('kubernetes/inference-pool/picker.yaml')
  const { spec: ofPicker } = picker!.spec.template
  const [front] = documentsOf<Deployment>(`${cluster}/front.yaml`)
  const { terminationGracePeriodSeconds: ofFront } = front!.spec.template.spec
  t.ok(ofPicker.terminationGracePeriodSeconds > ofFront, 'streams to fronts pass through it')
  t.match(ofPicker, { securityContext: { runAsNonRoot: true } })
  t.match(ofPicker.containers[0].securityContext, shutTight)
  for (const file of ['front.yaml', 'worker.yaml', 'valkey.yaml']) {
    const [process, ...others] = documentsOf<Deployment>(`${cluster}/${file}`)
    const { spec, metadata } = process!.spec.template
    const [container] = spec.containers
    t.match(spec, { securityContext: { runAsNonRoot: true }, automountServiceAccountToken: false })
    t.match(container.securityContext, shutTight, file)
    t.match(container.resources, { requests: { memory: /i$/ }, limits: { memory: /i$/ } }, file)
    t.ok(container.readinessProbe, `${file}: nothing is sent to it, or stopped for it, too early`)
    t.ok(container.livenessProbe, file)
    const budget = others.find(({ kind }) => kind === 'PodDisruptionBudget')
    t.equal(budget === undefined, file === 'valkey.yaml', `${file}: a single one has no budget`)
    const own = documentsOf<Policy>(`${cluster}/network.yaml`).filter((policy) => {
      const { matchLabels } = policy.spec.podSelector
      return (
        matchLabels['app.kubernetes.io/component'] ===
        metadata.labels['app.kubernetes.io/component']
      )
    })
    t.match(own, [{ spec: { policyTypes: ['Ingress', 'Egress'] } }])
  }
  const { resources } = parse(read(`${cluster}/kustomization.yaml`)) as { resources: string[] }
  for (const file of resources) t.ok(documentsOf(`${cluster}/${file}`).length > 0, file)
  for (const image of [read('Dockerfile'), read('Dockerfile.cuda')]) {
    t.match(image, /^USER node$/m)
    const [, library] = /native build --media (\S+)/.exec(image) ?? []
    t.match(image, ` CLLM_MEDIA_LIBRARY=${library} `, 'what encodes images is built, and named')
    for (const [, base] of image.matchAll(/^FROM (\S+)/gm)) {
      t.match(base, /:\d+\.\d+\.\d+-/, 'pinned')
    }
  }
})

t.test('pods start: their configuration is one, and a ready file of before is gone', async (t) => {
  const [, image = ''] = /^ENV ((?:.*\\\n)*.*)$/m.exec(read('Dockerfile')) ?? []
  const ofImage = Object.fromEntries(
    [...image.matchAll(/(\w+)=(\S+)/g)].map(([, name = '', value = '']) => [name, value]),
  )
  t.match(ofImage, { CLLM_HOST: '0.0.0.0' })
  const readyFile = join(t.testdir({ ready: '' }), 'ready')
  const nowhere = 'redis://worker:secret@127.0.0.1:1'
  const listeners = process.listenerCount('uncaughtExceptionMonitor')
  for (const file of ['kubernetes/cllm.yaml', `${cluster}/front.yaml`, `${cluster}/worker.yaml`]) {
    const [container] = documentsOf<Deployment>(file)[0]!.spec.template.spec.containers
    const own = container.env.map(({ name, value }) => {
      const secret = name === 'CLLM_CLUSTER' ? nowhere : 'a'.repeat(32)
      return [name, name === 'CLLM_READY_FILE' ? readyFile : (value ?? secret)]
    })
    const env = { ...ofImage, ...(Object.fromEntries(own) as Record<string, string>) }
    if (env['CLLM_CLUSTER'] === undefined) t.same(loadConfig({ argv: [], env }).warnings, [], file)
    else
      t.match(await run([...container.args], env), { code: 1, stderr: /cannot be reached/ }, file)
  }
  t.equal(existsSync(readyFile), false)
  const left = process.listenerCount('uncaughtExceptionMonitor')
  t.equal(left, listeners, 'what could not start listens to nothing')
  const pods = [
    ...['front', 'worker', 'valkey'].map((name) => `${cluster}/${name}.yaml`),
    'kubernetes/cllm.yaml',
    'kubernetes/inference-pool/picker.yaml',
  ].flatMap((file) => documentsOf<Deployment>(file).filter(({ spec }) => spec?.template))
  t.equal(pods.length, 5)
  for (const { spec, metadata } of pods) {
    t.equal(spec.template.spec.enableServiceLinks, false, metadata.name)
  }
})

t.test('the job of CI that tries the manifests names what is in them', (t) => {
  const ci = new URL('../../../.github/workflows/ci.yml', import.meta.url)
  const { jobs } = parse(readFileSync(ci, 'utf8')) as {
    readonly jobs: { readonly kubernetes: { readonly steps: readonly { readonly run?: string }[] } }
  }
  const commands = jobs.kubernetes.steps.map(({ run = '' }) => run).join('\n')
  const [, old = '', model, file = ''] =
    /sed 's\/(\S+)\/(\S+)\/' deploy\/(\S+)/.exec(commands) ?? []
  const manifest = read(file)
  t.match(manifest, `value: ${old}\n`)
  t.ok(findEntry(catalog, model ?? ''), 'the model that takes its place is one of the catalog')
  for (const [, image] of manifest.matchAll(/image: (\S+)/g)) {
    t.match(commands, `docker build -f deploy/Dockerfile -t ${image} .`)
    t.match(commands, `kind load docker-image ${image} `)
  }
  for (const [, name, key] of manifest.matchAll(/secretKeyRef:\s+name: (\S+)\s+key: (\S+)/g)) {
    t.match(commands, `create secret generic ${name} --from-literal=${key}=`)
  }
  const [deployment, , service] = documentsOf<Deployment>(file)
  t.match(commands, `rollout status deployment/${deployment?.metadata.name} `)
  t.match(commands, `port-forward service/${service?.metadata.name} 8080:80 `)
  t.match(service, { kind: 'Service', spec: { ports: [{ port: 80 }] } })
  t.end()
})

t.test('workers are scaled by metrics that there are', (t) => {
  const keda = 'kubernetes/keda'
  const object = parse(read(`${keda}/scaled-object.yaml`)) as ScaledObject
  const { scaleTargetRef, minReplicaCount, maxReplicaCount, fallback, triggers, advanced } =
    object.spec
  const [worker] = documentsOf<Deployment>(`${cluster}/worker.yaml`)
  const [front] = documentsOf<Deployment>(`${cluster}/front.yaml`)
  t.match(worker, { ...scaleTargetRef, name: undefined, metadata: { name: scaleTargetRef.name } })
  t.equal(fallback.replicas, 2)
  t.ok(minReplicaCount <= fallback.replicas && fallback.replicas < maxReplicaCount)
  t.match(advanced.horizontalPodAutoscalerConfig.behavior.scaleDown, {
    stabilizationWindowSeconds: 300,
    policies: [{ type: 'Percent', value: 50 }],
  })
  const known = triggers.map(({ metadata: { query } }) => /\bcllm_\w+/.exec(query)?.[0] ?? '')
  t.same(known, ['cllm_predicted_wait_seconds', 'cllm_num_requests_waiting'])
  for (const name of known) {
    t.equal(metricTable[name]?.type, 'gauge')
    t.ok(
      loadMetrics.some((one) => one === name),
      `${name} needs no key`,
    )
  }
  const { resources, patches, replacements } = parse(
    read(`${keda}/kustomization.yaml`),
  ) as Kustomization
  t.same(resources, ['scaled-object.yaml'])
  t.match(replacements, [
    { targets: [{ select: { kind: object.kind, name: object.metadata.name } }] },
  ])
  const [fixed, readByPrometheus] = patches.map(({ patch }) => parse(patch) as readonly Change[])
  t.match(fixed, [{ op: 'remove', path: '/spec/replicas' }], 'KEDA has the number')
  t.match(patches, [{ target: targetOf(worker!) }, { target: targetOf(front!) }])
  t.match(readByPrometheus![0]!.value, {
    'prometheus.io/port': String(httpPort(front!)),
    'prometheus.io/path': '/metrics/load',
  })
  t.end()
})

t.test('a picker finds fronts, their port, their load and its own service', (t) => {
  const folder = 'kubernetes/inference-pool'
  const [front, service] = documentsOf<Deployment & Service>(`${cluster}/front.yaml`)
  const [pool] = documentsOf<Pool>(`${folder}/pool.yaml`)
  const { selector, targetPorts, endpointPickerRef } = pool!.spec
  t.same(selector.matchLabels, front!.spec.template.metadata.labels)
  t.same(targetPorts, [{ number: httpPort(front!) }])

  const picker = documentsOf<Deployment & Service>(`${folder}/picker.yaml`)
  const [process, reached] = picker
  t.match(reached, { kind: endpointPickerRef.kind, metadata: { name: endpointPickerRef.name } })
  t.match(reached!.spec.ports, [{ port: endpointPickerRef.port.number }])
  t.match(process!.spec.template.metadata.labels, reached!.spec.selector)
  const [container] = process!.spec.template.spec.containers
  t.ok(container.args.includes(`--pool-name=${pool!.metadata.name}`))
  t.ok(container.args.includes(`--grpc-port=${endpointPickerRef.port.number}`))
  for (const { kind, metadata } of picker) t.equal(metadata.name, 'cllm-picker', kind)

  const paths = new Set(
    [openAiProtocol(), anthropicProtocol(), metricsProtocol()]
      .flatMap(({ routes = [] }) => routes)
      .map(({ path }) => path),
  )
  const [route] = documentsOf<Route>(`${folder}/route.yaml`)
  const [toPool, toService] = route!.spec.rules
  t.ok(toPool!.matches!.length > 1)
  for (const { path } of toPool!.matches!) t.ok(paths.has(path.value), path.value)
  t.match(toPool!.backendRefs, [{ kind: pool!.kind, name: pool!.metadata.name }])
  t.match(toService!.backendRefs, [
    { name: service!.metadata.name, port: service!.spec.ports[0]!.port },
  ])

  const config = parse(read(`${folder}/picker-config.yaml`)) as PickerConfig
  const parametersOf = (type: string) =>
    config.plugins.find((plugin) => plugin.type === type)?.parameters
  t.ok(paths.has(parametersOf('metrics-data-source')!.path!))
  const [{ name: engine, ...specs }] = parametersOf('core-metrics-extractor')!.engineConfigs!
  t.equal(Object.keys(specs).length, 4)
  for (const spec of Object.values(specs)) {
    t.ok(
      loadMetrics.some((name) => name === spec),
      spec,
    )
  }
  t.same(metricTable[specs['cacheInfoSpec']!]?.labels, ['block_size', 'num_gpu_blocks'])
  const types = new Set(config.plugins.map(({ type }) => type))
  const [profile] = config.schedulingProfiles
  for (const { pluginRef } of profile!.plugins) t.ok(types.has(pluginRef), pluginRef)

  const { resources, patches, configMapGenerator } = parse(
    read(`${folder}/kustomization.yaml`),
  ) as Kustomization
  for (const file of resources) t.ok(documentsOf(`${folder}/${file}`).length > 0, file)
  t.match(configMapGenerator, [{ name: 'cllm-picker', files: ['picker-config.yaml'] }])
  t.match(patches, [{ target: targetOf(front!) }])
  t.match(parse(patches[0]!.patch), [
    { path: '/spec/template/metadata/labels/llm-d.ai~1engine-type', value: engine },
  ])
  t.end()
})

const documentsOf = <T extends object>(path: string): T[] =>
  parseAllDocuments(read(path)).map((document) => document.toJS() as T)

const httpPort = ({ spec }: Deployment): number | undefined =>
  spec.template.spec.containers[0].ports?.find(({ name }) => name === 'http')?.containerPort

const targetOf = ({ kind, metadata }: Named) => ({ kind, name: metadata.name })

interface Named {
  readonly kind: string
  readonly metadata: { readonly name: string }
}

interface ScaledObject extends Named {
  readonly spec: {
    readonly scaleTargetRef: Named['metadata'] & { readonly apiVersion: string }
    readonly minReplicaCount: number
    readonly maxReplicaCount: number
    readonly fallback: { readonly replicas: number }
    readonly advanced: {
      readonly horizontalPodAutoscalerConfig: { readonly behavior: { readonly scaleDown: object } }
    }
    readonly triggers: readonly { readonly metadata: { readonly query: string } }[]
  }
}

interface Change {
  readonly value: object
}

interface Kustomization {
  readonly resources: readonly string[]
  readonly patches: readonly { readonly target: object; readonly patch: string }[]
  readonly replacements?: readonly object[]
  readonly configMapGenerator?: readonly object[]
}

interface Service extends Named {
  readonly spec: {
    readonly selector: Readonly<Record<string, string>>
    readonly ports: readonly { readonly port: number }[]
  }
}

interface Pool extends Named {
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> }
    readonly targetPorts: readonly object[]
    readonly endpointPickerRef: {
      readonly kind: string
      readonly name: string
      readonly port: { readonly number: number }
    }
  }
}

interface Route extends Named {
  readonly spec: {
    readonly rules: readonly {
      readonly matches?: readonly { readonly path: { readonly value: string } }[]
      readonly backendRefs: readonly object[]
    }[]
  }
}

interface PickerConfig {
  readonly plugins: readonly {
    readonly type: string
    readonly parameters?: {
      readonly path?: string
      readonly engineConfigs?: readonly [Readonly<Record<string, string>>]
    }
  }[]
  readonly schedulingProfiles: readonly {
    readonly plugins: readonly { readonly pluginRef: string }[]
  }[]
}

interface Probe {
  readonly httpGet: { readonly path: string }
}

interface Policy {
  readonly spec: { readonly podSelector: { readonly matchLabels: Record<string, string> } }
}

interface Deployment extends Named {
  readonly spec: {
    readonly template: {
      readonly metadata: { readonly labels: Record<string, string> }
      readonly spec: {
        readonly enableServiceLinks?: boolean
        readonly terminationGracePeriodSeconds: number
        readonly securityContext: { readonly runAsNonRoot: boolean }
        readonly containers: readonly [
          {
            readonly args: readonly string[]
            readonly ports?: readonly { readonly name: string; readonly containerPort: number }[]
            readonly env: readonly { readonly name: string; readonly value?: string }[]
            readonly lifecycle?: {
              readonly preStop: { readonly exec: { readonly command: string[] } }
            }
            readonly securityContext: object
            readonly startupProbe: Probe
            readonly livenessProbe: Probe
            readonly readinessProbe?: object
            readonly resources: object
          },
        ]
      }
    }
  }
}
