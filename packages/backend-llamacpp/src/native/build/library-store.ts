import { existsSync } from 'node:fs'
import {
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises'
import { basename, join } from 'node:path'
import { type BuildInfo, type Machine, parseBuildInfo } from './build-info.js'
import { misfitOf } from './fit-machine.js'

/** The file beside a library that says what it is. */
const infoFile = 'build.json'

/** The beginning of names of folders that are being written. */
const unfinished = '.building-'

/** A build in the cache. */
export interface StoredBuild {
  readonly folder: string
  readonly info: BuildInfo
  /** The library's file; undefined where the prebuilt library was the fastest. */
  readonly library: string | undefined
}

/** Which build is used, and why others are not. */
export interface BuildChoice {
  readonly build: StoredBuild | undefined
  /** Why the newest build cannot be used; undefined when it can, or when there is none. */
  readonly misfit: string | undefined
}

/** The builds in a folder, the newest first. What is no build or incomplete is left out. */
export async function readBuilds(folder: string): Promise<StoredBuild[]> {
  const names = await readdir(folder).catch(() => [])
  const builds = await Promise.all(
    names.filter((name) => !name.startsWith('.')).map((name) => readBuild(join(folder, name))),
  )
  const time = ({ info }: StoredBuild) => Date.parse(info.builtAt)
  return builds.filter((build) => build !== undefined).sort((a, b) => time(b) - time(a))
}

/** The newest of the builds that were made for this machine and these versions. */
export function chooseBuild(builds: readonly StoredBuild[], machine: Machine): BuildChoice {
  const build = builds.find(({ info }) => misfitOf(info, machine) === undefined)
  const [newest] = builds
  if (build !== undefined || newest === undefined) return { build, misfit: undefined }
  return { build: undefined, misfit: misfitOf(newest.info, machine) }
}

/** A new folder to build in, beside the builds. What was left there by others that died is removed. */
export async function openWorkFolder(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true })
  const names = await readdir(folder)
  const left = names.filter((name) => name.startsWith(unfinished))
  await Promise.all(left.map((name) => removeFolder(join(folder, name))))
  return await mkdtemp(join(folder, unfinished))
}

/**
 * Adds a build, complete or not at all, and removes those that it replaces.
 *
 * @param work - a folder that {@link openWorkFolder} has made
 * @param library - the library's file; undefined where the prebuilt library was the fastest
 */
export async function publishBuild(
  folder: string,
  work: string,
  info: BuildInfo,
  library: string | undefined,
): Promise<StoredBuild> {
  const staging = join(work, 'finished')
  await mkdir(staging)
  if (library !== undefined) await copyFile(library, join(staging, basename(library)))
  await writeFile(join(staging, infoFile), `${JSON.stringify(info, undefined, 2)}\n`)
  const replaced = (await readBuilds(folder)).filter((build) => isReplaced(build.info, info))
  const target = join(folder, `${info.builtAt.replaceAll(/\W/g, '')}-${info.fastest}`)
  await rename(staging, target)
  await Promise.all(replaced.map((build) => removeFolder(build.folder)))
  return stored(target, info)
}

/** Removes all builds and returns how many there were. */
export async function removeBuilds(folder: string): Promise<number> {
  const builds = await readBuilds(folder)
  await Promise.all(builds.map((build) => removeFolder(build.folder)))
  return builds.length
}

/** Removes a folder with all that is in it, except what this process has loaded on Windows. */
export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true }).catch(() => {})
}

async function readBuild(folder: string): Promise<StoredBuild | undefined> {
  const text = await readFile(join(folder, infoFile), 'utf8').catch(() => '')
  const info = parseBuildInfo(text)
  if (info === undefined) return undefined
  const build = stored(folder, info)
  return build.library === undefined || existsSync(build.library) ? build : undefined
}

/** Whether an older build is of the same machine, whatever its version. */
function isReplaced(old: BuildInfo, { machine }: BuildInfo): boolean {
  return (
    old.machine.platform === machine.platform &&
    old.machine.arch === machine.arch &&
    old.machine.cpu === machine.cpu
  )
}

function stored(folder: string, info: BuildInfo): StoredBuild {
  const library = info.library === null ? undefined : join(folder, basename(info.library))
  return { folder, info, library }
}
