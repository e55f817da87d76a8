import { CllmError, attempt } from '@cllm/core'
import { modelName } from '../../models/resolve-model.js'
import {
  readModels,
  type ServedModelState,
  ServerClient,
  type ServerAddress,
} from './server-client.js'

/** How long a server on this machine may take to say that it is there, in milliseconds. */
const patienceMs = 3000

/** A server and the name by which it serves a model. */
export interface Found {
  readonly client: ServerClient
  readonly model: string
}

/** What answers at an address, as far as a model is concerned. */
export type Search =
  | { readonly kind: 'serves'; readonly found: Found }
  /** A server with other models: the only one that it has loaded, or its only one. */
  | { readonly kind: 'other'; readonly names: readonly string[]; readonly found: Found | undefined }
  | { readonly kind: 'none' }

/**
 * Looks for a model on the server at this address.
 *
 * @param spec - undefined: whichever model the server has
 * @throws CllmError what a server answers that is there but refuses, such as `unauthenticated`, and
 *   `target_unavailable` where its certificate is not trusted
 */
export async function findServer(
  address: ServerAddress,
  spec: string | undefined,
): Promise<Search> {
  const client = new ServerClient(address)
  const states = await statesOf(client)
  if (states === undefined) return { kind: 'none' }
  const served = states.map(({ name }) => name)
  const names = spec === undefined ? [] : namesOf(spec)
  const own = names.find((name) => served.includes(name))
  if (own !== undefined) return { kind: 'serves', found: { client, model: own } }
  for (const model of names) {
    if (await knowsAlias(client, model)) return { kind: 'serves', found: { client, model } }
  }
  const loaded = states.filter(({ state }) => state === 'loaded').map(({ name }) => name)
  const [model, ...more] = loaded.length > 0 ? loaded : served
  const isOnly = model !== undefined && more.length === 0
  return { kind: 'other', names: served, found: isOnly ? { client, model } : undefined }
}

/** All models; undefined where something else answers, or nothing. */
async function statesOf(client: ServerClient): Promise<readonly ServedModelState[] | undefined> {
  try {
    return await readModels(client, AbortSignal.timeout(patienceMs))
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
  return attempt(() => [...new Set([spec, modelName(spec)])], [spec])
}

/** The names of a server's models. */
export async function servedNames(client: ServerClient): Promise<readonly string[]> {
  const { data } = (await client.get('/v1/models')) as { data: readonly { id: string }[] }
  return data.map(({ id }) => id)
}
