import { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { Answer, Call } from '../../routes/call.js'
import type { ModelsContext } from './models-context.js'

const wanted = (most: number, usual: number) => {
  const expected = `an integer from 1 to ${most}`
  const number = z.coerce.number(expected).int(expected)
  return number.min(1, expected).max(most, expected).default(usual)
}

/** The query of {@link memory}. */
export const memoryQuery = z.object({
  model: z.string('the name of a model').min(1, 'the name of a model'),
  slots: wanted(4096, 1),
  ctx_size: wanted(2 ** 24, 4096),
})

/** `GET /models/memory`: how much memory a model would take, without loading it. */
export async function memory(
  call: Call<unknown, z.output<typeof memoryQuery>>,
  { store }: ModelsContext,
): Promise<Answer> {
  const { model, slots, ctx_size: contextSize } = call.query
  if (store?.memory === undefined) {
    const message = 'This server does not know how much memory models take before they are loaded'
    throw new CllmError('unsupported', message)
  }
  const { weights, total, available } = await store.memory(model, slots, contextSize)
  return {
    success: true,
    data: {
      model,
      slots,
      ctx_size: contextSize,
      weights_bytes: weights,
      total_bytes: total,
      available_bytes: available,
    },
  }
}
