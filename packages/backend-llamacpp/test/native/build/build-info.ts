import {
  type BuildInfo,
  currentVersions,
  type Machine,
} from '../../../src/native/build/build-info.js'

/** A machine of tests. */
export const machine: Machine = {
  platform: 'linux',
  arch: 'x64',
  cpu: 'Some CPU',
  features: ['avx', 'avx2'],
}

/** What a build of that machine and of these versions says. */
export function buildInfo(changes: Partial<BuildInfo> = {}): BuildInfo {
  return {
    schema: 1,
    library: 'libcllm-llama.so',
    fastest: 'plain',
    ...currentVersions,
    machine,
    compiler: 'GNU 12.2.0',
    flags: '-O3 -march=native',
    builtAt: '2025-01-02T03:04:05.678Z',
    measured: {
      model: 'qwen3-0.6b',
      threads: 2,
      figures: {
        prebuilt: { prefill: 100, decode: [10, 20, 30] },
        plain: { prefill: 110, decode: [11, 22, 33] },
      },
    },
    ...changes,
  }
}
