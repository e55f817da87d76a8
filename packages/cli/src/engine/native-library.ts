import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { chooseBuild, type Machine, readBuilds } from '@cllm/backend-llamacpp/native-build'
import type { Logger } from '@cllm/core'
import { nativeFolder } from '../models/cache-folder.js'

const cpuInfo = '/proc/cpuinfo'

/** This machine, as far as a library depends on it. Only Linux names the CPU's instructions. */
export function thisMachine(
  read: (file: string) => string = (file) => readFileSync(file, 'utf8'),
): Machine {
  const { platform, arch } = process
  const cpu = cpus()[0]?.model.trim() ?? 'unknown'
  return { platform, arch, cpu, features: featuresIn(tryRead(read)) }
}

/** What `cllm native build` has built. */
export interface NativeLibraries {
  /** llama.cpp, if it was the fastest. */
  readonly library: string | undefined
  /** The same with what encodes images. */
  readonly mediaLibrary: string | undefined
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
  const { build, misfit } = chooseBuild(await readBuilds(folder), thisMachine())
  if (misfit !== undefined) {
    logger.warn(
      { folder, reason: misfit },
      `the library of \`cllm native build\` is not used (${misfit}): running on the prebuilt one`,
    )
  }
  return { library: build?.library, mediaLibrary: build?.media }
}

function tryRead(read: (file: string) => string): string {
  try {
    return read(cpuInfo)
  } catch {
    return '' // another operating system, or a container without it
  }
}

/** The instructions of the first core, such as `avx2`, as Linux lists them. */
function featuresIn(text: string): string[] {
  const list = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(text)?.[1] ?? ''
  return list.split(' ').filter((feature) => feature !== '')
}
