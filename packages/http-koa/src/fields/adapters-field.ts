import type { AdapterChoice } from '@cllm/core'
import { z } from 'zod'
import { integer, largest, list, name, number } from './fields.js'

const expected = 'the name of an adapter, or up to 8 of { id or name, scale }'

const choice = z
  .object({
    id: integer(0, largest).optional(),
    name: name.optional(),
    scale: number(-1000, 1000).optional(),
  })
  .refine(({ id, name }) => (id === undefined) !== (name === undefined), expected)
  .transform(({ id, name, scale }): AdapterChoice => ({
    adapter: id ?? name ?? '',
    ...(scale !== undefined && { scale }),
  }))

/** Adapters as llama-server takes them, by number or by name. */
export const adapterChoices = list(choice, expected, { most: [8, expected] })

/** The adapters of a request: `lora`. */
export const adaptersField = z.union(
  [name.transform((adapter): AdapterChoice[] => [{ adapter }]), adapterChoices],
  expected,
)
