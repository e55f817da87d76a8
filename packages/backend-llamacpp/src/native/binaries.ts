import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import process from 'node:process'
import { attempt } from '@cllm/core'
import { type GpuKind, nodeLlamaCppVersion } from './native.js'

/** The files of node-llama-cpp's addon, which lie beside llama.cpp's libraries. */
export interface Binary {
  /** The addon. */
  readonly file: string
  /** The folder with libraries for older GPUs, if it is there. */
  readonly older: string | undefined
}

const systems: Readonly<Partial<Record<string, string>>> = { darwin: 'mac', win32: 'win' }

/** The kinds of GPUs that there are packages for, in the order in which they are tried. */
const kinds: Readonly<Partial<Record<string, readonly GpuKind[]>>> = {
  'linux-x64': ['cuda', 'vulkan'],
  'mac-arm64': ['metal'],
  'win-x64': ['cuda', 'vulkan'],
}

const machineName = (platform: string, arch: string): string =>
  `${systems[platform] ?? platform}-${arch === 'arm' ? 'armv7l' : arch}`

/** The kinds of GPUs that llama.cpp has a library for, on this machine by default. */
export function gpuKinds(platform: string = process.platform, arch: string = process.arch) {
  return kinds[machineName(platform, arch)] ?? []
}

/** The npm packages with the library for a machine's GPU, or for its CPU: the package with Metal serves both. */
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
 * Finds the library for a GPU or the CPU; undefined: it is not installed. Looks beside this package, beside packages
 * that depend on such libraries, and in a folder.
 *
 * @param folder - a folder with `node_modules`
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

/** The folders in which Node.js looks for a package. Searched by hand, as Node.js caches what it did not find. */
function moduleFolders(name: string): string[] {
  const own = createRequire(import.meta.url)
  const folders = own.resolve.paths(name) ?? []
  for (const other of ['node-llama-cpp', '@cllm/linux-arm64/package.json']) {
    const paths = attempt(() => createRequire(own.resolve(other)).resolve.paths(name))
    folders.push(...(paths ?? [])) // none if it is not installed
  }
  return folders
}

/** The folder with a package's libraries, if the package is installed in the expected version. */
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

/** The loaded library for the GPU in use; undefined: no GPU is used, or its code is part of another library. */
export function loadedGpuLibrary(gpu: GpuKind | false, paths?: readonly string[]) {
  if (gpu === false) return undefined
  const pattern = new RegExp(`[\\\\/](?:lib)?ggml-${gpu}\\.(?:so|dylib|dll)$`)
  return (paths ?? sharedObjects()).find((path) => pattern.test(path))
}

/** The files of all libraries that this process has loaded. */
export function sharedObjects(): readonly string[] {
  const report: NodeJS.ProcessReport & { excludeNetwork?: boolean } = process.report
  report.excludeNetwork = true // otherwise it looks up the host names of connections
  const { sharedObjects } = report.getReport() as unknown as { sharedObjects: readonly string[] }
  return sharedObjects
}
