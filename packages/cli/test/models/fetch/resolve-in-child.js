import { resolveModel } from 'cllm'

// Run by file-lock.test.ts as a process of its own; what happens is told to the parent
const [spec = '', options = '{}'] = process.argv.slice(2)
const model = await resolveModel(spec, {
  ...JSON.parse(options),
  onProgress: (event) => process.send?.(event),
})
process.send?.({ kind: 'resolved', ...model })
process.disconnect()
