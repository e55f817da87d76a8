import {
  copyFile,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { basename, join } from 'node:path'
import { type BuildInfo, type Machine, incompatibility, parseBuildInfo } from './build-info.js'

/** The file beside a library that describes it. */
const infoFile = 'build.json'

/** The beginning of the names of unfinished folders. */
const unfinished = '.building-'

/** A build in the cache. */
export interface StoredBuild {
  readonly folder: string
  readonly info: BuildInfo
  /** The library's file; undefined if the prebuilt library was the fastest. */
  readonly library: string | undefined
  /** The library for images and sounds; undefined in builds of earlier versions, which have none. */
  readonly media: string | undefined
  /** Whether the file's length has changed since the build: loading it could end the process. */
  readonly isDamaged: boolean
}

/** The result of {@link chooseBuild}. */
export interface BuildChoice {
  readonly build: StoredBuild | undefined
  /** Why the newest build cannot be used; undefined if some build can be used, or if there is none. */
  readonly misfit: string | undefined
}

/** The builds in a folder, the newest first; ignores incomplete builds and other files. */
export async function readBuilds(folder: string): Promise<StoredBuild[]> {
  const names = await readdir(folder).catch(() => [])
  const builds = await Promise.all(
    names.filter((name) => !name.startsWith('.')).map((name) => readBuild(join(folder, name))),
  )
  const time = ({ info }: StoredBuild) => Date.parse(info.builtAt)
  return builds.filter((build) => build !== undefined).sort((a, b) => time(b) - time(a))
}

/** Chooses the newest build that was made for this machine and these versions. */
export function chooseBuild(builds: readonly StoredBuild[], machine: Machine): BuildChoice {
  const misfit = ({ info, isDamaged }: StoredBuild): string | undefined =>
    isDamaged ? 'its file is damaged' : incompatibility(info, machine)
  const build = builds.find((build) => misfit(build) === undefined)
  const [newest] = builds
  if (build !== undefined || newest === undefined) return { build, misfit: undefined }
  return { build: undefined, misfit: misfit(newest) }
}

/** Makes a new folder to build in, beside the builds, and removes such folders of processes that died. */
export async function openWorkFolder(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true })
  await removeUnfinished(folder)
  return await mkdtemp(join(folder, unfinished))
}

/**
 * Adds a build atomically, even if the machine loses power, and then removes the builds that it replaces.
 *
 * @param work - a folder that {@link openWorkFolder} has made
 * @param library - the library's file; undefined if the prebuilt library was the fastest
 * @param media - the file of the library for images and sounds
 */
export async function publishBuild(
  folder: string,
  work: string,
  info: BuildInfo,
  library: string | undefined,
  media: string,
): Promise<StoredBuild> {
  const staging = join(work, 'finished')
  await mkdir(staging)
  const add = async (file: string): Promise<number> => {
    await copyFile(file, join(staging, basename(file)))
    return await sync(join(staging, basename(file)))
  }
  const added = { ...info, media: basename(media) }
  await add(media)
  if (library !== undefined) added.libraryBytes = await add(library)
  const text = `${JSON.stringify(added, undefined, 2)}\n`
  await writeFile(join(staging, infoFile), text, { flush: true })
  const replaced = (await readBuilds(folder)).filter((build) => isReplaced(build.info, info))
  const target = join(folder, `${info.builtAt.replaceAll(/\W/g, '')}-${info.fastest}`)
  await rename(staging, target)
  await Promise.all(replaced.map((build) => removeFolder(build.folder)))
  return stored(target, added)
}

/** Removes all builds, and the folders of unfinished ones. Returns how many builds there were. */
export async function removeBuilds(folder: string): Promise<number> {
  await removeUnfinished(folder)
  const builds = await readBuilds(folder)
  await Promise.all(builds.map((build) => removeFolder(build.folder)))
  return builds.length
}

/** Removes a folder with its content, except files that this process has loaded on Windows. */
export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true }).catch(() => {})
}

async function removeUnfinished(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  const left = names.filter((name) => name.startsWith(unfinished))
  await Promise.all(left.map((name) => removeFolder(join(folder, name))))
}

/** Waits until a file is on the disk; returns its length in bytes. */
async function sync(file: string): Promise<number> {
  const handle = await open(file, 'r+')
  try {
    await handle.sync()
    return (await handle.stat()).size
  } finally {
    await handle.close()
  }
}

async function readBuild(folder: string): Promise<StoredBuild | undefined> {
  const text = await readFile(join(folder, infoFile), 'utf8').catch(() => '')
  const info = parseBuildInfo(text)
  if (info === undefined) return undefined
  const build = stored(folder, info)
  if (build.library === undefined) return build
  const file = await stat(build.library).catch(() => undefined)
  const { libraryBytes = file?.size } = info
  return file && { ...build, isDamaged: file.size !== libraryBytes }
}

/** Whether an older build is for the same machine, whatever its version. */
const isReplaced = (old: BuildInfo, { machine }: BuildInfo): boolean =>
  (['platform', 'arch', 'cpu'] as const).every((name) => old.machine[name] === machine[name])

function stored(folder: string, info: BuildInfo): StoredBuild {
  const library = info.library === null ? undefined : join(folder, basename(info.library))
  const media = info.media === undefined ? undefined : join(folder, basename(info.media))
  return { folder, info, library, media, isDamaged: false }
}
