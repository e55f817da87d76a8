import { CllmError } from '@cllm/core'

/** Stands for every name that is not known. */
const anyName = '*'

/**
 * The name of the model that is meant: by default the first. A name may end with `:latest`, as Ollama's
 * lists have it. Throws `model_not_found`.
 */
export function resolveModelName(
  names: readonly string[],
  aliases: ReadonlyMap<string, string>,
  id: string | undefined,
): string {
  const name = id ?? names[0] ?? ''
  if (names.includes(name)) return name
  const untagged = name.replace(/:latest$/, '')
  if (names.includes(untagged)) return untagged
  const meant = aliases.get(name) ?? aliases.get(untagged) ?? aliases.get(anyName)
  if (meant !== undefined && names.includes(meant)) return meant
  const known = [...names, ...aliases.keys()].join(', ')
  const message = `model: expected one of ${known}, instead got "${name.slice(0, 100)}"`
  throw new CllmError('model_not_found', message, { details: { field: 'model' } })
}

/** The other names of a model; not those that match every unknown name. */
export const aliasesOf = (name: string, aliases: ReadonlyMap<string, string>): string[] =>
  [...aliases]
    .filter(([alias, meant]) => meant === name && alias !== anyName)
    .map(([alias]) => alias)
