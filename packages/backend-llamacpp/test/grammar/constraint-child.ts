import { type Backend, CllmError, type OutputConstraint, systemClock } from '@cllm/core'
import { createLlamaCppBackend } from '../../src/create-llamacpp-backend.js'
import { generate, recordingLogger } from '../open-tiny.js'

/** How that ended: `drawn` is how many tokens there are. */
export type ConstraintResult =
  | { readonly drawn: number }
  | { readonly code: string; readonly message: string; readonly ms: number }

let backend: Backend | undefined

/** The first message is the path of a model, the others are constraints; each is answered. */
process.on('message', (message: string | OutputConstraint) => {
  const answer = typeof message === 'string' ? open(message) : run(message)
  void answer.then((result) => process.send?.(result))
})

async function open(modelPath: string): Promise<ConstraintResult> {
  const settings = { slots: 1, contextSize: 256, batchSize: 64, threads: 1, gpu: 'off' } as const
  const services = { clock: systemClock, logger: recordingLogger() }
  backend = await createLlamaCppBackend({ ...settings, modelPath }, services)
  return { drawn: 0 }
}

async function run(constraint: OutputConstraint): Promise<ConstraintResult> {
  const began = performance.now()
  try {
    const tokens = backend!.tokenizer.encode('x')
    backend!.release(0)
    const params = { constraint, temperature: 1 }
    const [drawn] = await generate(backend!, [{ slot: 0, tokens, params, count: 60 }])
    return { drawn: drawn!.length }
  } catch (error) {
    const { code, message } = CllmError.from(error)
    return { code, message, ms: performance.now() - began }
  }
}
