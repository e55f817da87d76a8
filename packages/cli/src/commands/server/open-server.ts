import { CllmError } from '@cllm/core'
import { catalog, findEntry } from '../../models/catalog/catalog.js'
import { modelsFolder } from '../../models/cache-folder.js'
import { downloadedModel } from '../../models/catalog/known-model.js'
import type { CommandIo } from '../command-io.js'
import type { Values } from '../flags/flags.js'
import { configFrom } from '../model/models-folder.js'
import { findServer, servedNames, type Found } from './find-server.js'
import { startServer } from './own-server.js'
import { ServerClient } from './server-client.js'
import { serverAddress, type serverFlags } from './server-flags.js'

/** A server that serves a model, running or started for this command. */
export interface OpenServer extends Found {
  /** Whether it was started for this command. */
  readonly isOwn: boolean
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
  const address = serverAddress(flags, io)
  const search = await findServer(address, spec)
  const running = (found: Found): OpenServer => ({ ...found, isOwn: false, close: async () => {} })
  if (search.kind === 'serves') return running(search.found)
  const { origin } = address.url
  if (search.kind === 'other') {
    const { names, found } = search
    if (found !== undefined && spec === undefined) return running(found)
    if (flags.url !== undefined || spec === undefined) {
      const problem = spec === undefined ? 'serves several models' : `does not serve ${spec}`
      const message = `the server at ${origin} ${problem}: expected one of ${names.join(', ')}`
      throw new CllmError('model_not_found', message)
    }
    if (found !== undefined && !(await isHere(spec, flags.config, io))) {
      const isKnown = findEntry(catalog, spec) !== undefined
      const why = isKnown ? `is not downloaded (\`cllm pull ${spec}\`)` : 'is no known model'
      const note = `${spec} ${why}; this is ${found.model}, which the server at ${origin} serves`
      io.stderr.write(`${note}\n`)
      return running(found)
    }
  } else if (flags.url !== undefined) await servedNames(new ServerClient(address)) // says why
  const { config } = flags
  const file = config === undefined ? [] : ['--config', config]
  const named = spec === undefined ? [] : ['--model', spec]
  const server = await startServer([...file, ...named, ...own], io)
  try {
    const client = new ServerClient(server)
    const [model = spec ?? ''] = await servedNames(client)
    return { client, model, isOwn: true, close: () => server.close() }
  } catch (error) {
    await server.close()
    throw error
  }
}

/** Whether a server of its own would have the model without a download; a path or `hf:…` is taken at its word. */
async function isHere(spec: string, file: string | undefined, io: CommandIo): Promise<boolean> {
  if (/[\\/:]|\.gguf$/i.test(spec)) return true
  const loaded = configFrom({ config: file }, io)
  return await downloadedModel(modelsFolder(loaded, io.env), spec).then(
    () => true,
    () => false,
  )
}
