import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import process from 'node:process'
import { attempt } from '@cllm/core'
import { type GpuKind, nodeLlamaCppVersion } from '../native.js'

/** llama.cpp's libraries with node-llama-cpp's addon. */
export interface Binary {
  /** The addon. */
  readonly file: string
  /** The folder with libraries for older GPUs, if it is there. */
  readonly older: string | undefined
}

const systems: Readonly<Partial<Record<string, string>>> = { darwin: 'mac', win32: 'win' }

/** GPUs that there are packages for, in the order in which they are tried. */
const kinds: Readonly<Partial<Record<string, readonly GpuKind[]>>> = {
  'linux-x64': ['cuda', 'vulkan'],
  'mac-arm64': ['metal'],
  'win-x64': ['cuda', 'vulkan'],
}

const machineName = (platform: string, arch: string): string =>
  `${systems[platform] ?? platform}-${arch === 'arm' ? 'armv7l' : arch}`

/** GPUs that there is a library of llama.cpp for on such a machine, by default this one. */
export function gpuKinds(platform: string = process.platform, arch: string = process.arch) {
  return kinds[machineName(platform, arch)] ?? []
}

/** The npm packages with the library for a GPU of such a machine, or for its CPU: the one with Metal is for both. */
export function binaryPackages(
  kind: GpuKind | 'cpu',
  platform: string = process.platform,
  arch: string = process.arch,
): readonly string[] {
  const library = gpuKinds(platform, arch).includes('metal') ? 'metal' : kind
  const machine = `@node-llama-cpp/${machineName(platform, arch)}`
  const name = library === 'cpu' ? machine : `${machine}-${library}`
  return kind === 'cuda' ? [name, `${name}-ext`] : [name]
}

/**
 * Where the library for a GPU or the CPU is; undefined: nowhere. It is looked for beside this package, beside what
 * brings such libraries, and in a folder.
 *
 * @param folder - with `node_modules`
 */
export function findBinary(kind: GpuKind | 'cpu', folder?: string): Binary | undefined {
  const [name = '', older] = binaryPackages(kind)
  const modules = moduleFolders(name)
  if (folder !== undefined) modules.push(join(folder, 'node_modules'))
  const bins = binsIn(modules, name)
  if (bins === undefined) return undefined
  return {
    file: join(bins, 'llama-addon.node'),
    older: older === undefined ? undefined : binsIn(modules, older),
  }
}

/** The folders with packages, seen from here. Node.js itself remembers what it did not find. */
function moduleFolders(name: string): string[] {
  const own = createRequire(import.meta.url)
  const folders = own.resolve.paths(name) ?? []
  for (const other of ['node-llama-cpp', '@cllm/linux-arm64/package.json']) {
    const paths = attempt(() => createRequire(own.resolve(other)).resolve.paths(name))
    folders.push(...(paths ?? [])) // none where it is not installed
  }
  return folders
}

/** The folder with a package's libraries, if it is there in the version that is known here. */
function binsIn(modules: readonly string[], name: string): string | undefined {
  const roots = modules.map((folder) => join(folder, name))
  const root = roots.find((folder) => versionIn(folder) === nodeLlamaCppVersion)
  return root && join(root, 'bins', name.slice(name.indexOf('/') + 1))
}

/** The version of the package in a folder; undefined: it is not there. */
export const versionIn = (folder: string): unknown =>
  attempt(
    () => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version?: unknown },
  )?.version

/** The library for the GPU that computes in this process; undefined: there is none, or it is part of another. */
export function loadedGpuLibrary(gpu: GpuKind | false, paths?: readonly string[]) {
  if (gpu === false) return undefined
  const pattern = new RegExp(`[\\\\/](?:lib)?ggml-${gpu}\\.(?:so|dylib|dll)$`)
  return (paths ?? sharedObjects()).find((path) => pattern.test(path))
}

/** The files of all libraries in this process. */
export function sharedObjects(): readonly string[] {
  const report: NodeJS.ProcessReport & { excludeNetwork?: boolean } = process.report
  report.excludeNetwork = true // else it looks up the names of peers
  const { sharedObjects } = report.getReport() as unknown as { sharedObjects: readonly string[] }
  return sharedObjects
}
