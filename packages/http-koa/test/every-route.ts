import * as exported from '@cllm/http-koa'
import type { EngineDirectory } from '@cllm/core'
import type { ApiRoute, KoaProtocol, KoaRouter } from '@cllm/http-koa'
import { Router } from '@koa/router'

const log = { level: 'info' }
const described: readonly KoaProtocol[] = [
  exported.nativeProtocol(),
  exported.openAiProtocol(),
  exported.ollamaProtocol(),
  exported.llamaServerProtocol(),
  exported.adminProtocol({ log }),
  exported.metricsProtocol(),
]

/** One of each protocol that this package has. */
export const everyProtocol: readonly KoaProtocol[] = [
  ...described,
  exported.openApiProtocol({ protocols: described }),
]

/** How many there are: functions whose names end so make them. */
export const protocolCount = Object.keys(exported).filter((name) =>
  name.endsWith('Protocol'),
).length

/** What the protocols say that they serve; where two claim a path, the first one has it. */
export const everyRoute: readonly ApiRoute[] = everyProtocol
  .flatMap(({ routes = [] }) => routes)
  .filter(
    ({ method, path }, index, all) =>
      all.findIndex((other) => other.method === method && other.path === path) === index,
  )

/** What they really put on a router. */
export function mountedRoutes(): string[] {
  const router = new Router() as unknown as KoaRouter
  const directory = { list: () => [], open: () => undefined } as unknown as EngineDirectory
  for (const protocol of everyProtocol) protocol.mount(router, directory)
  return router.stack.flatMap(({ path, methods }) =>
    methods.filter((method) => method !== 'HEAD').map((method) => `${method} ${String(path)}`),
  )
}

/** The address of a route: parameters stand for something. */
export const addressOf = ({ path }: ApiRoute): string => path.replace(/[:*]\w+/g, 'fake')

const messages = [{ role: 'user', content: 'a' }]
const ollama = { model: 'fake', options: { num_predict: 1 } }

/** A small body for every route that takes one; its prompts are the letter a. */
export const validBodies: Readonly<Record<string, object>> = {
  '/generate': { prompt: 'a', max_tokens: 1 },
  '/generate_stream': { prompt: 'a', max_tokens: 1 },
  '/encode': { text: 'a' },
  '/decode': { tokens: [65] },
  '/benchmark': { prompt: 'a', requests: 2, max_tokens: 1 },
  '/v1/chat/completions': { messages, max_tokens: 1 },
  '/v1/completions': { prompt: 'a', max_tokens: 1 },
  '/v1/responses': { input: 'a', max_output_tokens: 1 },
  '/v1/embeddings': { model: 'fake', input: 'a' },
  '/api/show': { model: 'fake' },
  '/api/generate': { ...ollama, prompt: 'a' },
  '/api/chat': { ...ollama, messages },
  '/api/embed': { model: 'fake', input: 'a' },
  '/api/embeddings': { model: 'fake', prompt: 'a' },
  '/completion': { prompt: 'a', n_predict: 1 },
  '/completions': { prompt: 'a', n_predict: 1 },
  '/tokenize': { content: 'a' },
  '/detokenize': { tokens: [65] },
  '/apply-template': { messages },
  '/embedding': { content: 'a' },
  '/embeddings': { content: 'a' },
  '/admin/scheduler': { policy: 'run-all' },
  '/admin/log-level': { level: 'info' },
}

const shapes: Readonly<Record<string, object>> = {
  native: { success: false, error: /./, code: /^[a-z_]+$/ },
  openai: { error: { message: /./, type: /./, code: /^[a-z_]+$/ } },
  ollama: { error: /./ },
  'llama-server': { error: { code: Number, message: /./, type: /_error$/ } },
}

/** What a failure at this path looks like. */
export function errorShape(path: string): object {
  const owner = everyProtocol.find(({ errors }) => errors?.covers(path))
  return shapes[owner?.name ?? 'native']!
}
