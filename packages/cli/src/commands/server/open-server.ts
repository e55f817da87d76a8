import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { CllmError, attempt } from '@cllm/core'
import { catalog, findEntry, meantModel } from '../../models/catalog/catalog.js'
import { modelsFolder } from '../../models/cache-folder.js'
import { downloadedModel } from '../../models/catalog/known-models.js'
import { type CommandIo, CommandFailed } from '../command.js'
import type { Values } from '../flags.js'
import { configFrom, serverAddress, type serverFlags } from '../config-flags.js'
import { ServerClient, readModels, type ServedModelState } from './server-client.js'
import { modelName } from '../../models/resolve-model.js'
import { killAtExit } from '../../process/stop-signal.js'

/** A server that serves a model, running or started for this command. */
interface OpenServer {
  readonly client: ServerClient
  /** The name by which it serves the model. */
  readonly model: string
  /** Ends it if it was started for this command. */
  close(): Promise<void>
}

/**
 * The running server that the flags name, or one that is started for this command when none serves
 * the model. A running server with one model serves that one in place of a model that is not
 * downloaded, and says so on standard error.
 *
 * @param spec - undefined: the running server's model, or else one that the started server chooses
 * @param own - flags of `cllm serve` for a server that is started
 * @throws CllmError `model_not_found` when the server at `--url` does not serve the model, and what
 *   starting one throws
 */
export async function openServer(
  spec: string | undefined,
  flags: Values<typeof serverFlags>,
  own: readonly string[],
  io: CommandIo,
): Promise<OpenServer> {
  const { url, config } = flags
  const client = new ServerClient(serverAddress(flags, io))
  const { origin } = client.address.url
  const search = await findModel(client, spec, url !== undefined)
  if (search !== undefined) {
    const { names, model, isAsked } = search
    const running = model !== undefined && { client, model, close: async () => {} }
    if (running && (isAsked || spec === undefined)) return running
    if (url !== undefined || spec === undefined) {
      const problem = spec === undefined ? 'serves several models' : `does not serve ${spec}`
      const message = `the server at ${origin} ${problem}: expected one of ${names.join(', ')}`
      throw new CllmError('model_not_found', message)
    }
    if (running && !(await isHere(spec, config, io))) {
      const isKnown = findEntry(catalog, spec) !== undefined
      const why = isKnown ? `is not downloaded (\`cllm pull ${spec}\`)` : 'is no known model'
      io.stderr.write(`${spec} ${why}; this is ${model}, which the server at ${origin} serves\n`)
      return running
    }
  }
  const file = config === undefined ? [] : ['--config', config]
  const named = spec === undefined ? [] : ['--model', spec]
  const server = await startServer([...file, ...named, ...own], io)
  try {
    const client = new ServerClient(server)
    const [model = spec ?? ''] = await servedNames(client)
    return { client, model, close: () => server.close() }
  } catch (error) {
    await server.close()
    throw error
  }
}

/**
 * Whether a word may name a model: the running server's, one that a server of its own would have or fetch, or one of
 * the catalog that is misspelt.
 */
export async function mayBeModel(
  word: string | undefined,
  flags: Values<typeof serverFlags>,
  io: CommandIo,
): Promise<boolean> {
  if (word === undefined || findEntry(catalog, word) !== undefined) return true
  if (meantModel(word, catalog) !== '') return true
  const client = new ServerClient(serverAddress(flags, io))
  const search = await findModel(client, word, flags.url !== undefined)
  return search?.isAsked === true || (await isHere(word, flags.config, io))
}

/** Whether a server of its own would have the model without a download; assumed for a path or `hf:…`. */
async function isHere(spec: string, file: string | undefined, io: CommandIo): Promise<boolean> {
  if (/[\\/:]|\.gguf$/i.test(spec)) return true
  const loaded = configFrom({ config: file }, io)
  const found = downloadedModel(modelsFolder(loaded, io.env), spec)
  return (await found.catch(() => undefined)) !== undefined
}

/** Milliseconds that a server on this machine may take to answer. */
const patienceMs = 3000

/**
 * Looks for a model on a server.
 *
 * @param spec - undefined: whichever model the server has
 * @returns the names of its models, and as `model` the requested one, or else the only loaded one, or else the only
 *   one; undefined where no server answers, unless `--url` names it
 * @throws CllmError the answer of a server that refuses, such as `unauthenticated`, and `target_unavailable` where its
 *   certificate is not trusted
 */
async function findModel(client: ServerClient, spec: string | undefined, isNamed: boolean) {
  const states = (await statesOf(client)) ?? (isNamed ? await othersStates(client) : undefined)
  if (states === undefined) return undefined
  const names = states.map(({ name }) => name)
  const asked = spec === undefined ? [] : namesOf(spec)
  const own = asked.find((name) => names.includes(name))
  if (own !== undefined) return { names, model: own, isAsked: true }
  for (const model of asked) {
    if (await knowsAlias(client, model)) return { names, model, isAsked: true }
  }
  const loaded = states.filter(({ state }) => state === 'loaded').map(({ name }) => name)
  const [model, ...more] = loaded.length > 0 ? loaded : names
  return { names, model: more.length === 0 ? model : undefined, isAsked: false }
}

/** All models and their states; undefined if another program answers, or nothing. */
async function statesOf(client: ServerClient): Promise<readonly ServedModelState[] | undefined> {
  try {
    return await readModels(client, AbortSignal.timeout(patienceMs))
  } catch (error) {
    if (CllmError.isInstance(error) && (error.details['isNamed'] === true || isUntrusted(error)))
      throw error
    return undefined
  }
}

/** The models of another program's server, which may have all of them in memory. */
const othersStates = async (client: ServerClient) =>
  (await servedNames(client)).map((name) => ({ name, state: 'loaded' }))

/** Whether a server answers whose certificate this machine does not trust. */
function isUntrusted({ cause }: CllmError): boolean {
  const { code } = ((cause as Error | undefined)?.cause ?? {}) as NodeJS.ErrnoException
  return code !== undefined && /CERT|LEAF_SIGNATURE/.test(code)
}

/** Whether the server knows a model by this other name. The route loads nothing. */
async function knowsAlias(client: ServerClient, model: string): Promise<boolean> {
  const signal = AbortSignal.timeout(patienceMs)
  const answer = client.post('/api/show', { model }, signal)
  return await answer.then(() => true).catch(() => false)
}

/** The names under which a server may serve a spec: the spec itself, or as `cllm serve` names it. */
const namesOf = (spec: string): readonly string[] =>
  attempt(() => [...new Set([spec, modelName(spec)])], [spec])

/** The names of a server's models. */
export async function servedNames(client: ServerClient): Promise<readonly string[]> {
  const { data } = (await client.get('/v1/models')) as { data: readonly { id: string }[] }
  return data.map(({ id }) => id)
}

const bin = fileURLToPath(new URL('../../../bin/cllm.js', import.meta.url))
const listening = 'listening on '

/** Flags that keep the server private, whatever the configuration says of address, keys, batches, usage and cluster. */
const alone =
  '--host 127.0.0.1 --port 0 --log-level silent --no-tls-cert --no-tls-key --no-api-keys ' +
  '--requests-per-minute 0 --tokens-per-minute 0 --no-batches --batch-share 0 --no-usage ' +
  '--no-responses --no-cluster --no-cluster-keys --no-cluster-batches --workers 1'

/**
 * Starts `cllm serve` on a free port of this machine, in a process that ends with this one. Its progress and its errors
 * show on standard error. It requires a key, which is made for it.
 *
 * @param flags - of `cllm serve`; the environment and the configuration file apply, too, except for {@link alone}
 * @throws CommandFailed when it does not start; the reason is on standard error
 */
async function startServer(flags: readonly string[], io: CommandIo) {
  const apiKey = randomBytes(32).toString('base64url')
  const child = spawn(process.execPath, [bin, 'serve', ...alone.split(' '), ...flags], {
    env: { ...io.env, CLLM_API_KEY: apiKey },
    // Ctrl-C is for this process; the server ends when the IPC channel does.
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const stop = (): void => void (child.connected && child.disconnect())
  const hasEnded = killAtExit(() => void child.kill('SIGKILL'))
  io.signal.addEventListener('abort', stop, { once: true })
  /** Ends the server; resolves when it has ended. */
  const close = async (): Promise<void> => {
    stop()
    await exited
    hasEnded()
    io.signal.removeEventListener('abort', stop)
  }
  try {
    return { url: await urlOf(child.stdout!, exited), apiKey, close }
  } catch (error) {
    await close()
    io.signal.throwIfAborted()
    throw error
  }
}

async function urlOf(stdout: NodeJS.ReadableStream, exited: Promise<unknown>): Promise<URL> {
  const lines = createInterface(stdout)
  const found = new Promise<URL>((resolve) => {
    lines.on('line', (line) => {
      if (line.startsWith(listening)) resolve(new URL(line.slice(listening.length)))
    })
  })
  const url = await Promise.race([found, exited.then(() => undefined)])
  if (url !== undefined) return url
  throw new CommandFailed('the server for this command did not start')
}
