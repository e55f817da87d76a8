import { createHash, randomUUID } from 'node:crypto'
import { lstat, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { LearnedStore, Logger } from '@cllm/core'
import { replaceFile } from '../models/replace-file.js'

/** How many files a folder has, and bytes each of them. */
const [mostFiles, mostBytes] = [64, 65_536]

const ours = /^[0-9a-f]{32}\.json(\.[0-9a-f-]{36}\.part)?$/

/**
 * Opens the file with what engines of one kind learned. What is wrong with it, or with its folder, is a line at `debug`
 * and nothing else.
 *
 * @param kind - all that what is learned depends on: machine, library, model and settings
 */
export async function openLearned(
  folder: string,
  kind: unknown,
  logger: Logger,
): Promise<LearnedStore> {
  const of = createHash('sha256').update(JSON.stringify(kind)).digest('hex').slice(0, 32)
  const name = `${of}.json`
  const file = join(folder, name)
  const attempt = async (work: Promise<unknown>): Promise<unknown> =>
    await work.catch((error: unknown) => {
      logger.debug({ file, err: error }, 'what was learned is not kept')
    })
  return {
    known: await attempt(read(file, of)),
    keep: async (learned) => void (await attempt(write(folder, name, { of, learned }))),
  }
}

async function read(file: string, kind: string): Promise<unknown> {
  const found = await lstat(file).catch(() => undefined)
  if (found === undefined) return undefined
  if (!found.isFile() || found.size > mostBytes) throw new TypeError('it is no small file')
  const { of, learned } = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>
  if (of !== kind) throw new TypeError('it is of another kind of engine')
  return learned
}

async function write(folder: string, name: string, content: object): Promise<void> {
  const part = join(folder, `${name}.${randomUUID()}.part`)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await writeFile(part, JSON.stringify(content), { mode: 0o600 })
  await replaceFile(part, join(folder, name))
  const others = (await readdir(folder)).filter((one) => ours.test(one) && one !== name)
  for (const one of others.slice(mostFiles - 1)) await rm(join(folder, one), { force: true })
}
