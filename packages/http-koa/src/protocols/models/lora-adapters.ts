import { CllmError } from '@cllm/core'
import { z } from 'zod'
import { boolean, number, text } from '../../fields/fields.js'
import type { Answer, CallOf } from '../../routes/call.js'

const name = text.min(1, 'the name of an adapter')
const model = text.min(1, 'the name of a model').optional()

/** The body of `POST /v1/load_lora_adapter`. */
export const loadAdapterSchema = z.object({
  lora_name: name,
  lora_path: text.min(1, 'a file on the server'),
  base_model_name: model,
  load_inplace: boolean.optional(),
  scale: number(-1000, 1000).optional(),
})

/** The body of `POST /v1/unload_lora_adapter`. */
export const unloadAdapterSchema = z.object({ lora_name: name, base_model_name: model })

/** `POST /v1/load_lora_adapter`, as vLLM has it: answers once requests can name the adapter. */
export async function loadAdapter(call: CallOf<typeof loadAdapterSchema>): Promise<Answer> {
  const { fields } = call
  const { lora_name: name, lora_path: path, scale } = fields
  const { client } = call.open(fields.base_model_name)
  if (fields.load_inplace === true) await client.unloadAdapter(name).catch(ignoreUnknown)
  const source = { name, path, ...(scale !== undefined && { scale }) }
  await client.loadAdapter(source).catch(blameThePath)
  return `Success: LoRA adapter '${name}' added successfully.`
}

/** `POST /v1/unload_lora_adapter`: requests that use it go on, new ones cannot name it. */
export async function unloadAdapter(call: CallOf<typeof unloadAdapterSchema>): Promise<Answer> {
  const { fields } = call
  await call.open(fields.base_model_name).client.unloadAdapter(fields.lora_name)
  return `Success: LoRA adapter '${fields.lora_name}' removed successfully.`
}

/** The client named the file. */
function blameThePath(error: unknown): never {
  const isFile = CllmError.isInstance(error) && /^model_(invalid|unavailable)$/.test(error.code)
  if (!isFile) throw error
  const details = { field: 'lora_path' }
  throw new CllmError('invalid_request', error.message, { details, cause: error })
}

function ignoreUnknown(error: unknown): void {
  if (!CllmError.isInstance(error) || error.code !== 'model_not_found') throw error
}
