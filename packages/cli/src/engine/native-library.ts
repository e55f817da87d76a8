import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus } from 'node:os'
import { createHash } from 'node:crypto'
import {
  chooseBuild,
  type Machine,
  readBuilds,
  currentVersions,
} from '@cllm/backend-llamacpp/native-build'
import { type Logger, silentLogger, attempt, type Backend } from '@cllm/core'
import { sampleFile } from '@cllm/backend-llamacpp/sample-file'
import { gpuFolder, nativeFolder } from '../models/cache-folder.js'

const cpuInfo = '/proc/cpuinfo'

/** This machine, as far as a library depends on it. Only Linux names the CPU's instructions. */
export function thisMachine(read: (file: string) => string = (file) => readFileSync(file, 'utf8')) {
  const { platform, arch } = process
  const cpu = cpus()[0]?.model.trim() ?? 'unknown'
  return { platform, arch, cpu, features: featuresIn(attempt(() => read(cpuInfo), '')) }
}

/**
 * The libraries that `cllm native build` has built for this machine and `cllm gpu add` has fetched. Libraries for other
 * versions or another CPU are not used, with a warning.
 */
export async function findNativeLibraries(env: NodeJS.ProcessEnv, logger: Logger) {
  const folder = nativeFolder({ env })
  const machine = thisMachine()
  const { build, misfit } = chooseBuild(await readBuilds(folder), machine)
  if (misfit !== undefined) {
    logger.warn(
      { folder, reason: misfit },
      `the library of \`cllm native build\` is not used (${misfit}): running on the prebuilt one`,
    )
  }
  return {
    /** llama.cpp, if it was the fastest. */
    library: build?.library,
    /** llama.cpp's library for images and sounds, built here or installed. */
    mediaLibrary: build?.media ?? packagedLibrary(machine),
    /** The folder of libraries for GPUs. */
    gpuFolder: gpuFolder({ env }),
  }
}

/** Whether images and sounds can be encoded here: if not, a projector would be fetched for nothing. */
export async function hasMediaLibrary(env: NodeJS.ProcessEnv): Promise<boolean> {
  // The engine's process warns of builds that do not fit.
  return (await findNativeLibraries(env, silentLogger)).mediaLibrary !== undefined
}

/** The x86-64 instructions that a packaged library is compiled for. */
const instructions = ['avx2', 'bmi2', 'f16c', 'fma']

/** The library for images and sounds in the npm package for such machines: for users who have it, and no compiler. */
export function packagedLibrary(
  { platform, arch, features }: Machine,
  resolve: (name: string) => string = createRequire(import.meta.url).resolve,
): string | undefined {
  if (arch === 'x64' && !instructions.every((name) => features.includes(name))) return undefined
  return attempt(() => resolve(`@cllm/media-${platform}-${arch}`))
}

/** The instructions of the first core, such as `avx2`, as Linux lists them. */
function featuresIn(text: string): string[] {
  const list = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(text)?.[1] ?? ''
  return list.split(' ').filter((feature) => feature !== '')
}

/**
 * A hash of everything that affects an engine's numbers: engines with equal fingerprints compute the same. It is the
 * `system_fingerprint` of OpenAI's answers, and a cluster prefers equal ones when it moves a request.
 *
 * @param options - the backend's
 * @param library - the library of `cllm native build`, if it is used
 */
export async function fingerprintOf(
  { model, capabilities }: Pick<Backend, 'model' | 'capabilities'>,
  { kvCacheType = null, flashAttention = null }: Readonly<Record<string, unknown>>,
  library: string | undefined,
): Promise<string> {
  const { path, details = {}, quantization, parameters } = model
  const { native = null, gpuLayers = null, kvUnified = null, chatTemplate = null } = details
  const parts = {
    quantization,
    parameters,
    native,
    gpuLayers,
    kvUnified,
    chatTemplate,
    file: path === undefined ? null : await hashOrNone(path),
    gpu: capabilities.gpu,
    kvCacheType,
    flashAttention,
    library: library === undefined ? null : await hashOrNone(library),
    machine: thisMachine(),
    versions: currentVersions,
  }
  const text = JSON.stringify(Object.entries(parts).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  // Begins like llama-server's, whose clients look for the b.
  return `b0-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
}

/** The hash of a file; null if it cannot be read, as a plug-in's model may be no file. */
async function hashOrNone(path: string): Promise<string | null> {
  const hash = createHash('sha256')
  return await sampleFile(path, hash)
    .then(() => hash.digest('hex'))
    .catch(() => null)
}
