import { createHash } from 'node:crypto'
import { sampleFile } from './sample-file.js'

/**
 * A hash of a model's file, as {@link sampleFile} reads it, by which states are told apart.
 *
 * @param more - what else must be the same
 */
export async function stateKey(path: string, more: object): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(more))
  await sampleFile(path, hash)
  return hash.digest('hex')
}
