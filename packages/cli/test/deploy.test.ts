import { readFileSync } from 'node:fs'
import { adminProtocol, nativeProtocol } from '@cllm/http-koa'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { options } from '../src/config/options/option-list.js'

const read = (path: string): string =>
  readFileSync(new URL(`../../../deploy/${path}`, import.meta.url), 'utf8')

const files = ['Dockerfile', 'compose.yaml', 'systemd/cllm.service', 'kubernetes/cllm.yaml']
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
  const sleep = container.lifecycle.preStop.exec.command[1]
  t.ok(terminationGracePeriodSeconds > seconds(drain) + seconds(sleep) + 2)
  t.equal(securityContext.runAsNonRoot, true)
  t.match(container.securityContext, {
    readOnlyRootFilesystem: true,
    allowPrivilegeEscalation: false,
  })
  t.equal(container.startupProbe.httpGet.path, '/health/ready')
  t.equal(container.livenessProbe.httpGet.path, '/health/live')
  const image = read('Dockerfile')
  t.match(image, /^USER node$/m)
  for (const [, base] of image.matchAll(/^FROM (\S+)/gm)) t.match(base, /:\d+\.\d+\.\d+-/, 'pinned')
})

interface Probe {
  readonly httpGet: { readonly path: string }
}

interface Deployment {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number
        readonly securityContext: { readonly runAsNonRoot: boolean }
        readonly containers: readonly [
          {
            readonly env: readonly { readonly name: string; readonly value?: string }[]
            readonly lifecycle: {
              readonly preStop: { readonly exec: { readonly command: string[] } }
            }
            readonly securityContext: object
            readonly startupProbe: Probe
            readonly livenessProbe: Probe
          },
        ]
      }
    }
  }
}
