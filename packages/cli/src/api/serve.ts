import {
  CllmError,
  defaultSampling,
  type ChatMessage,
  didYouMean,
  type EngineDirectory,
  type GenerateEvents,
  type GenerateRequest,
  type Logger,
  requestFields,
} from '@cllm/core'
import type { KoaProtocol, RequestObserver } from '@cllm/http-koa'
import { startServing } from '../commands/serve/start-serving.js'
import { readObjectLayer, type Layer } from '../config/layers.js'
import { loadConfig } from '../config/load-config.js'
import { describeValue } from '../config/messages.js'
import type { CllmConfig } from '../config/options/schema.js'
import { isRecord } from '../config/options/value-format.js'
import { stopped, stopSignal } from '../process/stop-signal.js'

/** Settings as in the YAML file of `cllm serve`, such as `{ engine: { gpu: 'off' } }`. */
export type ServeSettings = { readonly [Section in keyof CllmConfig]?: Part<CllmConfig[Section]> }

type Part<Tree> = Tree extends readonly unknown[] | string | number | boolean | null
  ? Tree
  : { readonly [Name in keyof Tree]?: Part<Tree[Name]> }

/** Options of {@link serve}; each has a default. */
export interface ServeOptions {
  /** A path, `hf:owner/repo[:quant]`, or a name from `cllm models`; default: the best downloaded one that fits. */
  readonly model?: string
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 8080; 0 takes a free one, which `url` has. */
  readonly port?: number
  /** Requests that are computed together; default 16. */
  readonly slots?: number
  /** Tokens per slot, prompt and answer together; default: the smaller of 4,096 and the model's training context. */
  readonly contextSize?: number
  /** Default `adaptive+fcfs`. */
  readonly policy?: string
  /** The key that clients need. Default: none, and then only this machine is served. */
  readonly apiKey?: string
  /** Whether the web page is served; default true. */
  readonly page?: boolean
  /** Every other setting of `cllm serve`. Default: none; files and `CLLM_` variables are not read. */
  readonly settings?: ServeSettings
  /** Protocols with routes of your own, before the built-in ones. Default: none. */
  readonly protocols?: readonly KoaProtocol[]
  /** Told of every request that comes over HTTP, with its events. Default: nobody. */
  readonly observers?: readonly RequestObserver[]
  /** Default: warnings and errors, on standard error. */
  readonly logger?: Logger
  /** Whether SIGINT and SIGTERM close the server, after running requests; default false. */
  readonly signals?: boolean
  /** Called with texts about the progress of the start, such as the download of a model. Default: not set. */
  readonly onProgress?: (text: string) => void
}

/** A server of {@link serve}. */
export interface RunningServer {
  /** Such as `http://127.0.0.1:8080`; a protocol's base URL is `url`, or `url` with `/v1` behind it. */
  readonly url: string
  /** The models, to work with as protocols do. */
  readonly models: EngineDirectory
  /**
   * Generates without HTTP, on the same engine and under the same policy.
   *
   * @param prompt - a text that goes on, a conversation that is answered, or a request with its settings
   * @param model - default: the server's first
   */
  generate(
    prompt: string | readonly ChatMessage[] | GenerateRequest,
    options?: { readonly model?: string; readonly signal?: AbortSignal },
  ): GenerateEvents
  /** Resolves when the server is closed; rejects with `engine_unavailable` when its engine cannot be started again. */
  readonly closed: Promise<void>
  /**
   * Lets running requests finish, then ends the engine.
   *
   * @param graceMs - milliseconds that they have; default: as `settings.server.drain_timeout` says, 30,000
   */
  close(graceMs?: number): Promise<void>
}

const optionPaths = {
  model: 'model.spec',
  host: 'server.host',
  port: 'server.port',
  slots: 'engine.slots',
  contextSize: 'engine.ctx_size',
  policy: 'scheduler.policy',
  apiKey: 'security.api_key',
  page: 'server.ui',
} as const

const isListOf = (value: unknown, fits = (_one: Record<string, unknown>) => true): boolean =>
  Array.isArray(value) && value.every((one) => isRecord(one) && fits(one))

const levels = ['debug', 'info', 'warn', 'error']

/** The expected values of the other options. */
const others = {
  settings: ['an object with settings', isRecord],
  protocols: [
    'a list of protocols',
    (value) =>
      isListOf(value, ({ name, routes = [] }) => name !== undefined && Array.isArray(routes)),
  ],
  observers: ['a list of observers', (value) => isListOf(value)],
  logger: [
    'an object with debug, info, warn and error',
    (value) => isListOf([value], (one) => levels.every((name) => typeof one[name] === 'function')),
  ],
  signals: ['true or false', (value) => typeof value === 'boolean'],
  onProgress: ['a function', (value) => typeof value === 'function'],
} satisfies Record<string, readonly [expected: string, fits: (value: unknown) => boolean]>

/**
 * Serves a model with all that `cllm serve` has: every protocol, the web page, and an engine in a process of its
 * own, which is started again after a crash. Resolves once the model is loaded.
 *
 * @throws `invalid_configuration` with what was expected and what came; `address_in_use`, `model_unavailable` and
 *   what the engine throws
 * @example
 * const server = await serve({ model: 'stories15m', port: 8080 })
 * for await (const event of server.generate('Once upon a time')) process.stdout.write(event.text)
 * await server.close()
 */
export async function serve(options: ServeOptions = {}): Promise<RunningServer> {
  const loaded = loadConfig({ argv: [], env: {}, given: layersOf(options) })
  const { protocols = [], observers = [], logger, onProgress = () => {} } = options
  const stop = options.signals === true ? stopSignal(process.env) : new AbortController().signal
  const out = { write: onProgress }
  const io = { stdout: out, stderr: out, env: process.env, signal: stop }
  const watching: KoaProtocol = { name: 'observers', observe: () => observers }
  const own = [...protocols, ...(observers.length === 0 ? [] : [watching])]
  const extras = { protocols: own, isGuest: true, ...(logger && { logger }) }
  const serving = await startServing(loaded, io, extras)
  const drainMs = loaded.config.server.drain_timeout * 1000
  const asked = new AbortController()
  const end = AbortSignal.any([stop, asked.signal])
  let graceMs = drainMs
  const closed = Promise.race([stopped(end), serving.death]).then(async (reason) => {
    await serving.close(reason === undefined ? graceMs : 0)
    if (reason === undefined) return
    throw new CllmError('engine_unavailable', `The engine cannot be started again: ${reason}`)
  })
  closed.catch(() => {}) // nobody has to wait for it
  return {
    url: serving.addresses[0]!.url,
    models: serving.directory,
    generate(prompt, options = {}) {
      checkNames('generate', options, ['model', 'signal'])
      return serving.directory.open(options.model).submit(requestOf(prompt), options)
    },
    closed,
    async close(ms = drainMs) {
      graceMs = ms
      asked.abort()
      await closed
    },
  }
}

/** The settings that the options stand for; wrong values from JavaScript are reported. */
function layersOf(options: ServeOptions): readonly Layer[] {
  if (!isRecord(options)) throw wrong(`expected an object, got ${describeValue(options)}`)
  checkNames('serve', options, Object.keys({ ...optionPaths, ...others }))
  for (const [name, [expected, fits]] of Object.entries(others)) {
    const value: unknown = options[name as keyof typeof others]
    if (value !== undefined && !fits(value)) {
      throw wrong(`${name}: expected ${expected}, got ${describeValue(value)}`)
    }
  }
  const settings = Object.entries(optionPaths).flatMap(([name, path]) => {
    const value = options[name as keyof typeof optionPaths]
    return value === undefined ? [] : [{ path, value, source: 'serve', label: `serve: ${name}` }]
  })
  const level = { logging: { level: 'warn' } }
  const more = [level, options.settings ?? {}].map((tree) =>
    readObjectLayer(tree, 'serve: settings'),
  )
  return [...more, { settings, problems: [], warnings: [] }]
}

const wrong = (problem: string): CllmError =>
  new CllmError('invalid_configuration', `serve: ${problem}`)

const samplingNames = [...Object.keys(defaultSampling), 'seed', 'constraint', 'samplers']

/** @throws for unknown names, which would be ignored silently */
function checkNames(what: string, given: object, names: readonly string[]): void {
  const unknown = Object.keys(given).find((name) => !names.includes(name))
  if (unknown === undefined) return
  const known = `(there are ${names.join(', ')})${didYouMean(unknown, names)}`
  const code = what === 'serve' ? 'invalid_configuration' : 'invalid_request'
  throw new CllmError(code, `${what}: there is no option "${unknown}" ${known}`)
}

function requestOf(prompt: string | readonly ChatMessage[] | GenerateRequest): GenerateRequest {
  if (typeof prompt === 'string') return { prompt: { text: prompt } }
  if (Array.isArray(prompt)) return { prompt: { messages: prompt } }
  const request = prompt as GenerateRequest
  if (isRecord(request) && 'prompt' in request) {
    const foreign = Object.keys(request).find((name) => /_/.test(name) || name in defaultSampling)
    if (foreign !== undefined) {
      const names = 'names are written as maxTokens is, and temperature stands in "sampling"'
      throw new CllmError('invalid_request', `generate: there is no field "${foreign}": ${names}`)
    }
    checkNames('generate', request, Object.keys(requestFields))
    const { sampling, fallbackSampling } = request
    checkNames('generate: sampling', { ...sampling, ...fallbackSampling }, samplingNames)
    return request
  }
  const message = `generate: expected a text, a list of messages, or an object with prompt, instead got ${describeValue(prompt)}`
  throw new CllmError('invalid_request', message)
}
