import { CllmError } from '@cllm/core'
import type { AddonContext } from './addon-types.js'
import { NativeCalls } from '../native-calls.js'
import type { BoundContext } from '../open/addon-bindings.js'

/**
 * A context of the addon as the others are. The addon takes typed arrays, and outputs as indexes; a decode that
 * does not throw gives nothing; and it frees a context under the threads that compute with it.
 */
export function asNativeContext(context: BoundContext): AddonContext {
  const calls = new NativeCalls()
  const add = context.addToBatch.bind(context)
  const decode = context.decodeBatch.bind(context)
  const sample = context.sampleToken.bind(context) as (...draw: unknown[]) => Promise<unknown>
  const free = context.dispose.bind(context)
  let freed: Promise<void> | undefined
  const run = async <T>(call: () => Promise<T>): Promise<T> => {
    if (freed !== undefined) throw new CllmError('backend_failed', 'the context was disposed of')
    return await calls.during(call)
  }
  const addToBatch: AddonContext['addToBatch'] = (sequence, position, tokens, outputs) => {
    const indexes = Uint32Array.from(outputs, (output) => output - position)
    add(sequence, position, Uint32Array.from(tokens), indexes)
  }
  const decodeBatch: AddonContext['decodeBatch'] = async () => {
    await run(decode)
    return true
  }
  return Object.defineProperties<object>(context, {
    addToBatch: { value: addToBatch },
    decodeBatch: { value: decodeBatch },
    sampleToken: { value: (...draw: unknown[]) => run(() => sample(...draw)) },
    dispose: { value: async () => await (freed ??= calls.ended().then(free)) },
  }) as AddonContext
}
