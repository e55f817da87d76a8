import { llamaVersion, nodeLlamaCppVersion } from '../versions.js'
import type { BuildInfo, Machine } from './build-info.js'

/** The versions that a library is built from now. */
export const currentVersions = { llamaVersion, nodeLlamaCppVersion } as const

/**
 * Why a library must not be loaded here; undefined when it may be. One with instructions that the CPU
 * lacks would end the process.
 */
export function misfitOf(info: BuildInfo, machine: Machine): string | undefined {
  const { platform, arch, cpu, features } = info.machine
  if (platform !== machine.platform || arch !== machine.arch) {
    return `it was built for ${platform} ${arch}, and this is ${machine.platform} ${machine.arch}`
  }
  if (cpu !== machine.cpu) return `it was built for the CPU ${cpu}, and this is ${machine.cpu}`
  const present = new Set(machine.features)
  const missing = features.filter((feature) => !present.has(feature))
  if (missing.length > 0) return `it was built for a CPU with ${missing.slice(0, 5).join(', ')}`
  if (info.nodeLlamaCppVersion !== nodeLlamaCppVersion) {
    return `it was built from node-llama-cpp ${info.nodeLlamaCppVersion}, and this is ${nodeLlamaCppVersion}`
  }
  if (info.llamaVersion !== llamaVersion) {
    return `it is llama.cpp ${info.llamaVersion}, and this is ${llamaVersion}`
  }
  return undefined
}
