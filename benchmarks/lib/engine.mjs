import { spawnEngine } from '../../packages/cli/dist/engine/spawn-engine.js'

/** An engine in its own process, as `cllm serve` starts it, with its plain settings. */
export async function startEngine(backend, { policy = 'adaptive+fcfs', level = 'warn' } = {}) {
  const settings = {
    backendName: 'llamacpp',
    backend,
    policy,
    policyOptions: {},
    options: {},
    plugins: [],
    pluginsFolder: process.cwd(),
    use: {},
    log: { level, file: null },
  }
  return await spawnEngine(settings, { env: process.env })
}
