import { CllmError } from '@cllm/core'
import type { CommandIo } from '../command-io.js'
import type { Values } from '../flags/flags.js'
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
 * the model.
 *
 * @param own - flags of `cllm serve` for a server that is started
 * @throws CllmError `model_not_found` when the server at `--url` does not serve the model, and what
 *   starting one throws
 */
export async function openServer(
  spec: string,
  flags: Values<typeof serverFlags>,
  own: readonly string[],
  io: CommandIo,
): Promise<OpenServer> {
  const address = serverAddress(flags, io)
  const found = await findServer(address, spec)
  if (found !== undefined) return { ...found, isOwn: false, close: async () => {} }
  if (flags.url !== undefined) {
    const names = await servedNames(new ServerClient(address))
    const message = `the server at ${address.url.origin} does not serve ${spec}: expected one of ${names.join(', ')}`
    throw new CllmError('model_not_found', message)
  }
  const config = flags.config === undefined ? [] : ['--config', flags.config]
  const server = await startServer([...config, '--model', spec, ...own], io)
  try {
    const client = new ServerClient(server)
    const [model = spec] = await servedNames(client)
    return { client, model, isOwn: true, close: () => server.close() }
  } catch (error) {
    await server.close()
    throw error
  }
}
