import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { adminProtocol, nativeProtocol } from '@cllm/http-koa'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { options } from '../src/config/options/option-list.js'
import { dispatch } from '../src/dispatch.js'
import { createLogger } from '../src/logger.js'

const run = async (argv: string[], env: NodeJS.ProcessEnv = {}) => {
  const written = { stdout: '', stderr: '' }
  const into = (name: keyof typeof written) => ({
    write: (text: string) => void (written[name] += text),
  })
  const io = { stdout: into('stdout'), stderr: into('stderr'), env }
  const code = await dispatch(argv, { ...io, signal: new AbortController().signal })
  return { code, ...written }
}

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
  const group = await run(['bench', '--help'])
  t.match(group, { code: 0, stdout: /^Usage: cllm bench <command>/, stderr: '' })
  t.match(group.stdout, /^ {2}bench serve /m)
  t.notMatch(group.stdout, /^ {2}serve /m)
  const { version } = JSON.parse(
    readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
  ) as { version: string }
  t.same(await run(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' })
})

t.test('wrong command lines', async (t) => {
  const nothing = await run([])
  t.match(nothing, { code: 2, stdout: '', stderr: /^Usage: cllm/ })
  const cases: readonly (readonly [string[], string])[] = [
    [['srve', '--port', '1'], 'unknown command srve; did you mean serve?'],
    [['model', 'sinth'], 'unknown command model sinth; did you mean model synth?'],
    [['model'], 'unknown command model; did you mean models?'],
    [['toString'], 'unknown command toString\n'],
    [['config', '--prt', '1'], 'unknown flag --prt; did you mean --port?\n'],
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
  t.match(yaml.stderr, /^warning: .*: server\.num_threads\n$/)

  const json = await run(['config', '--json', '--config', file, '--slots', '2'], {
    CLLM_GPU: 'off',
  })
  const { config, sources } = JSON.parse(json.stdout) as Record<string, Record<string, unknown>>
  t.same(config, parse(yaml.stdout))
  t.equal(sources?.['engine.slots'], '--slots')
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
  readable.debug({}, 'for a person')
  t.match(lines(terminal)[0], /^\S*\[\d\d:\d\d:\d\d\.\d{3}\].*DEBUG.*for a person/)

  const file = join(t.testdir({}), 'logs', 'cllm.log')
  createLogger({ level: 'info', file }, { isTTY: true }).error({}, 'into the file')
  t.match(JSON.parse(readFileSync(file, 'utf8')), { msg: 'into the file', level: 50 })
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
    return String(stream.read())
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

  const [deployment] = parseAllDocuments(read('kubernetes/cllm.yaml')).map(
    (document) => document.toJS() as Deployment,
  )
  const { terminationGracePeriodSeconds, containers, securityContext } =
    deployment!.spec.template.spec
  const [container] = containers
  const drain = container.env.find(({ name }) => name === 'CLLM_DRAIN_TIMEOUT')?.value
  const sleep = container.lifecycle!.preStop.exec.command[1]
  t.ok(terminationGracePeriodSeconds > seconds(drain) + seconds(sleep) + 2)
  t.equal(securityContext.runAsNonRoot, true)
  t.match(container.securityContext, {
    readOnlyRootFilesystem: true,
    allowPrivilegeEscalation: false,
  })
  t.equal(container.startupProbe.httpGet.path, '/health/ready')
  t.equal(container.livenessProbe.httpGet.path, '/health/live')
  for (const file of ['front.yaml', 'worker.yaml']) {
    const [process] = parseAllDocuments(read(`${cluster}/${file}`))
    const { spec } = (process!.toJS() as Deployment).spec.template
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
  for (const file of ['front.yaml', 'worker.yaml', 'valkey.yaml']) {
    const documents = parseAllDocuments(read(`${cluster}/${file}`))
    const [process, ...others] = documents.map((document) => document.toJS() as Deployment)
    const { spec, metadata } = process!.spec.template
    const [container] = spec.containers
    t.match(spec, { securityContext: { runAsNonRoot: true }, automountServiceAccountToken: false })
    t.match(container.securityContext, shutTight, file)
    t.match(container.resources, { requests: { memory: /i$/ }, limits: { memory: /i$/ } }, file)
    t.ok(container.readinessProbe, `${file}: nothing is sent to it, or stopped for it, too early`)
    t.ok(container.livenessProbe, file)
    const budget = others.find(({ kind }) => kind === 'PodDisruptionBudget')
    t.equal(budget === undefined, file === 'valkey.yaml', `${file}: a single one has no budget`)
    const policies = parseAllDocuments(read(`${cluster}/network.yaml`))
    const own = policies.filter((policy) => {
      const { matchLabels } = (policy.toJS() as Policy).spec.podSelector
      return (
        matchLabels['app.kubernetes.io/component'] ===
        metadata.labels['app.kubernetes.io/component']
      )
    })
    t.match(
      own.map((policy) => policy.toJS() as object),
      [{ spec: { policyTypes: ['Ingress', 'Egress'] } }],
    )
  }
  const { resources } = parse(read(`${cluster}/kustomization.yaml`)) as { resources: string[] }
  for (const file of resources) t.ok(parseAllDocuments(read(`${cluster}/${file}`)).length > 0, file)
  for (const image of [read('Dockerfile'), read('Dockerfile.cuda')]) {
    t.match(image, /^USER node$/m)
    for (const [, base] of image.matchAll(/^FROM (\S+)/gm)) {
      t.match(base, /:\d+\.\d+\.\d+-/, 'pinned')
    }
  }
})

interface Probe {
  readonly httpGet: { readonly path: string }
}

interface Policy {
  readonly spec: { readonly podSelector: { readonly matchLabels: Record<string, string> } }
}

interface Deployment {
  readonly kind: string
  readonly spec: {
    readonly template: {
      readonly metadata: { readonly labels: Record<string, string> }
      readonly spec: {
        readonly terminationGracePeriodSeconds: number
        readonly securityContext: { readonly runAsNonRoot: boolean }
        readonly containers: readonly [
          {
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
