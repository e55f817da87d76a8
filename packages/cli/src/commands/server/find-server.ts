import { CllmError } from '@cllm/core'
import { modelName } from '../../models/resolve-model.js'
import { ServerClient, type ServerAddress } from './server-client.js'

/** How long a server on this machine may take to say that it is there, in milliseconds. */
const patienceMs = 3000

/** A server and the name by which it serves a model. */
export interface Found {
  readonly client: ServerClient
  readonly model: string
}

/**
 * The running server at this address, if it serves the model; undefined where no server answers, or
 * it serves other models.
 *
 * @throws CllmError what a server answers that is there but refuses, such as `unauthenticated`
 */
export async function findServer(address: ServerAddress, spec: string): Promise<Found | undefined> {
  const client = new ServerClient(address)
  for (const model of namesOf(spec)) {
    try {
      // It knows names and aliases, and loads nothing.
      await client.send('POST', '/api/show', { model }, AbortSignal.timeout(patienceMs))
      return { client, model }
    } catch (error) {
      const code = CllmError.isInstance(error) ? error.code : 'target_unavailable'
      if (code === 'model_not_found') continue
      if (['target_unavailable', 'not_found', 'method_not_allowed'].includes(code)) return undefined
      throw error
    }
  }
  return undefined
}

/** The names under which a server may serve a spec: the spec itself, or as `cllm serve` names it. */
function namesOf(spec: string): readonly string[] {
  try {
    return [...new Set([spec, modelName(spec)])]
  } catch {
    return [spec]
  }
}

/** The names of a server's models. */
export async function servedNames(client: ServerClient): Promise<readonly string[]> {
  const { data } = (await client.get('/v1/models')) as { data: readonly { id: string }[] }
  return data.map(({ id }) => id)
}
