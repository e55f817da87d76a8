import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus } from 'node:os'
import { chooseBuild, type Machine, readBuilds } from '@cllm/backend-llamacpp/native-build'
import { type Logger, silentLogger, attempt } from '@cllm/core'
import { gpuFolder, nativeFolder } from '../models/cache-folder.js'

const cpuInfo = '/proc/cpuinfo'

/** This machine, as far as a library depends on it. Only Linux names the CPU's instructions. */
export function thisMachine(
  read: (file: string) => string = (file) => readFileSync(file, 'utf8'),
): Machine {
  const { platform, arch } = process
  const cpu = cpus()[0]?.model.trim() ?? 'unknown'
  return { platform, arch, cpu, features: featuresIn(attempt(() => read(cpuInfo), '')) }
}

/** What `cllm native build` has built and `cllm gpu add` has fetched. */
export interface NativeLibraries {
  /** llama.cpp, if it was the fastest. */
  readonly library: string | undefined
  /** The same with what encodes images, built here or installed. */
  readonly mediaLibrary: string | undefined
  /** Where libraries for GPUs are. */
  readonly gpuFolder: string
}

/**
 * The libraries that `cllm native build` has built for this machine. Those that were built for other versions
 * or another CPU are left alone, with a warning.
 */
export async function findNativeLibraries(
  env: NodeJS.ProcessEnv,
  logger: Logger,
): Promise<NativeLibraries> {
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
    library: build?.library,
    mediaLibrary: build?.media ?? packagedLibrary(machine),
    gpuFolder: gpuFolder({ env }),
  }
}

/** Whether something encodes images and sounds here: without it a projector would be fetched for nothing. */
export async function hasMediaLibrary(env: NodeJS.ProcessEnv): Promise<boolean> {
  // The engine's process warns of builds that do not fit.
  return (await findNativeLibraries(env, silentLogger)).mediaLibrary !== undefined
}

/** What of x86-64 a packaged library is compiled for. */
const instructions = ['avx2', 'bmi2', 'f16c', 'fma']

/** What encodes images, of the package for such machines: for those who have it, and no compiler. */
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
