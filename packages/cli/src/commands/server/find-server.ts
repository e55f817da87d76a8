import { CllmError } from '@cllm/core'
import { modelName } from '../../models/resolve-model.js'
import { readModels } from './model-states.js'
import { ServerClient, type ServerAddress } from './server-client.js'

/** How long a server on this machine may take to say that it is there, in milliseconds. */
const patienceMs = 3000

/** A server and the name by which it serves a model. */
export interface Found {
  readonly client: ServerClient
  readonly model: string
}

/**
 * The running server at this address, if it serves the model; undefined where no server of ours
 * answers, or it serves other models.
 *
 * @throws CllmError what a server answers that is there but refuses, such as `unauthenticated`, and
 *   `target_unavailable` where its certificate is not trusted
 */
export async function findServer(address: ServerAddress, spec: string): Promise<Found | undefined> {
  const client = new ServerClient(address)
  const served = await stateNames(client)
  if (served === undefined) return undefined
  const names = namesOf(spec)
  const own = names.find((name) => served.includes(name))
  if (own !== undefined) return { client, model: own }
  for (const model of names) if (await knowsAlias(client, model)) return { client, model }
  return undefined
}

/** The names of all models; undefined where something else answers, or nothing. */
async function stateNames(client: ServerClient): Promise<readonly string[] | undefined> {
  try {
    const states = await readModels(client, AbortSignal.timeout(patienceMs))
    return states.map(({ name }) => name)
  } catch (error) {
    if (CllmError.isInstance(error) && (error.details['isNamed'] === true || isUntrusted(error)))
      throw error
    return undefined
  }
}

/** Whether a server is there whose certificate this machine does not know. */
function isUntrusted({ cause }: CllmError): boolean {
  const { code } = ((cause as Error | undefined)?.cause ?? {}) as NodeJS.ErrnoException
  return code !== undefined && /CERT|LEAF_SIGNATURE/.test(code)
}

/** Whether it serves a model under another name. The route loads nothing. */
async function knowsAlias(client: ServerClient, model: string): Promise<boolean> {
  const signal = AbortSignal.timeout(patienceMs)
  return await client.send('POST', '/api/show', { model }, signal).then(
    () => true,
    () => false,
  )
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
