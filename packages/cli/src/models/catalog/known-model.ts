import { stat } from 'node:fs/promises'
import type { ModelShape } from '@cllm/backend-llamacpp'
import { CllmError } from '@cllm/core'
import { catalog, type CatalogEntry, findEntry } from './catalog.js'
import { shapeOf } from './memory-of.js'
import { downloadedModel } from '../downloaded-models.js'

/** What is known of a model without fetching it. */
export interface KnownModel {
  readonly name: string
  readonly entry: CatalogEntry | undefined
  /** Its file; undefined: it is not downloaded. */
  readonly path: string | undefined
  /** Undefined where it is not downloaded and the catalog has none. */
  readonly shape: ModelShape | undefined
}

/**
 * Finds a model by a name of the catalog, or a file that is here.
 *
 * @throws CllmError `model_unavailable` when it is neither
 */
export async function knownModel(spec: string, folder: string): Promise<KnownModel> {
  const entry = findEntry(catalog, spec)
  const path = await fileOf(spec, folder)
  if (path !== undefined) {
    // a server's process does without the rest of it
    const { readModelShape } = await import('@cllm/backend-llamacpp')
    return { name: spec, entry, path, shape: await readModelShape(path) }
  }
  if (entry !== undefined) return { name: spec, entry, path, shape: shapeOf(entry) }
  const message = `${spec} is no file and no name that \`cllm models\` or \`cllm list\` shows`
  throw new CllmError('model_unavailable', message)
}

async function fileOf(spec: string, folder: string): Promise<string | undefined> {
  const downloaded = await downloadedModel(folder, spec).catch(() => undefined)
  if (downloaded !== undefined) return downloaded.path
  const isFile = await stat(spec).then(
    (found) => found.isFile(),
    () => false,
  )
  return isFile ? spec : undefined
}
