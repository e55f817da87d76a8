import { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { ApiKey } from './api-key.js'

const limit = z.int().positive().optional()

const schema = z.strictObject({
  keys: z.array(
    z.strictObject({
      name: z.string().min(1).max(256),
      tenant: z.string().min(1).max(256),
      role: z.enum(['user', 'admin']),
      hash: z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 hex digits'),
      requestsPerMinute: limit,
      tokensPerMinute: limit,
      tokensPerMonth: limit,
    }),
  ),
})

/** The keys in the text of a key file. Throws `invalid_configuration`, naming the file and the place. */
export function parseKeys(text: string, file: string): readonly ApiKey[] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new CllmError('invalid_configuration', `${file}: expected JSON with keys`)
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data.keys as readonly ApiKey[]
  const problems = result.error.issues.map(
    ({ path, message }) => `${file}: ${path.join('.') || 'the file'}: ${message}`,
  )
  throw new CllmError('invalid_configuration', problems.join('\n'), { details: { problems } })
}
