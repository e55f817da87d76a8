/**
 * The parts of an answer that a client asks for with llama-server's `response_fields`: their paths have
 * slashes, as in `generation_settings/n_predict`, and are the names in the result. None: all of it.
 */
export function pickFields(answer: object, fields: readonly string[] | undefined): object {
  if (fields === undefined || fields.length === 0) return answer
  const picked = fields.flatMap((field) => {
    let value: unknown = answer
    for (const step of field.split('/')) {
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return []
      value = (value as Readonly<Record<string, unknown>>)[step]
    }
    return [[field, value] as const]
  })
  return Object.fromEntries(picked)
}
