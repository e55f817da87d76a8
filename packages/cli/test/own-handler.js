// Run by signals.test.ts as a process of its own: a program with a handler of its own, which loads a
// model after that.
const alive = setInterval(() => {}, 60_000)
process.once('SIGTERM', () => {
  setTimeout(() => {
    console.log('in order')
    clearInterval(alive)
    process.exit(0)
  }, 50)
})

const { createLlamaCppBackend } = await import('@cllm/backend-llamacpp')
const { silentLogger, systemClock } = await import('@cllm/core')
const { resolveModel } = await import('cllm')
const { path: modelPath } = await resolveModel(process.argv[2] ?? '')
const parts = { clock: systemClock, logger: silentLogger }
await createLlamaCppBackend({ modelPath, slots: 1, threads: 1, gpu: 'off' }, parts)
console.log('ready')
