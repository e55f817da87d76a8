import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { z } from 'zod'
import type { KvLayout, ShapeCost } from './choose-layout.js'
import type { Load } from './load-record.js'

/** What is kept of a model on a machine. */
export interface LayoutNotes {
  readonly load: Load
  /** The layout of its last context. */
  readonly layout: KvLayout
  readonly costs: readonly ShapeCost[]
}

const count = z.number().min(0)
const shape = z.strictObject({ sequences: count, context: count, chunk: count })
const notesSchema = z.strictObject({
  load: z.strictObject({
    counts: z.array(z.strictObject({ shape, steps: count })),
    shifts: z.boolean(),
  }),
  layout: z.enum(['own', 'pool']),
  costs: z.array(
    z.strictObject({ shape, own: z.number().positive(), pool: z.number().positive(), at: count }),
  ),
})

/**
 * Reads what was kept in a file; undefined where there is none.
 * @throws what is wrong with it
 */
export async function readNotes(path: string): Promise<LayoutNotes | undefined> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  return text === undefined ? undefined : notesSchema.parse(JSON.parse(text))
}

/** Writes it; a reader has what was there before or all of this. */
export async function writeNotes(path: string, notes: LayoutNotes): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const unfinished = `${path}.${randomUUID()}`
  await writeFile(unfinished, JSON.stringify(notes))
  await rename(unfinished, path)
}
