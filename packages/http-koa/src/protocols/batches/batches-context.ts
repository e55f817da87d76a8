import { CllmError } from '@cllm/core'
import { expectedField } from '../../request/refusals.js'
import { requestScope } from '../../security/authenticate.js'
import type { BatchRunner } from './batch-runner.js'
import type { BatchKind, BatchStore, Stored } from './batch-store.js'
import type { Kept, Owner } from './batch-objects.js'

/** What the handlers of files and batches share. */
export interface BatchesContext {
  readonly store: BatchStore
  readonly runner: BatchRunner
  /** Bytes of an uploaded file at most. */
  readonly fileLimitBytes: number
}

/** Who asks, to be kept with what is made. */
export function askingOwner(): { readonly owner?: Owner } {
  const key = requestScope.getStore()?.key
  if (key === undefined) return {}
  const { name, tenant, hash } = key
  return { owner: { name, tenant, hash } }
}

/** Whether who asks may see it: those of other tenants do not exist. */
export function maySee({ owner }: Kept<unknown>): boolean {
  const key = requestScope.getStore()?.key
  return key === undefined || key.role === 'admin' || key.tenant === owner?.tenant
}

/** A file or a batch that who asks may see. @throws `not_found` */
export async function find<K extends BatchKind>(
  store: BatchStore,
  kind: K,
  id: string,
): Promise<Stored<K>> {
  const kept = await store.get(kind, id)
  if (kept !== undefined && maySee(kept)) return kept
  const message = `There is no ${kind === 'files' ? 'file' : 'batch'} "${id.slice(0, 64)}"`
  throw new CllmError('not_found', message, { details: { id } })
}

/**
 * Where the one with this id is in a list.
 *
 * @param field - what has named it
 * @throws `invalid_request` where there is none
 */
export function placeOf(
  all: readonly { readonly id: string }[],
  id: string,
  field: string,
  shown = id,
): number {
  const index = all.findIndex((one) => one.id === id)
  if (index !== -1) return index
  throw expectedField(field, `an id of this list, got "${shown.slice(0, 64)}"`)
}

/** A part of a list, as Anthropic and OpenAI show it. */
export const partOf = <T extends { readonly id: string }>(
  data: readonly T[],
  has_more: boolean,
) => ({ data, has_more, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null })

/**
 * A page of a list, the newest first, in OpenAI's shape.
 *
 * @throws `invalid_request` where nothing has the id `after`: from the beginning, a pager would never end
 */
export function pageOf<T extends { readonly id: string }>(
  all: readonly T[],
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
) {
  const from = after === undefined ? 0 : placeOf(all, after, 'after') + 1
  return {
    object: 'list',
    ...partOf(all.slice(from, from + limit), from + limit < all.length),
  }
}
