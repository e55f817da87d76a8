import type { InfillTokens, TokenId } from '@cllm/core'
import type { NativeModel } from '../native/native-model.js'
import type { ControlToken } from './vocabulary.js'

/** How models spell these two tokens; llama.cpp does not expose the ids it finds. */
const repositoryTexts = ['<|repo_name|>', '<fim-repo>', '<repo_name>', '<reponame>']
const fileTexts = ['<|file_sep|>', '<|file_separator|>', '<file_sep>']

/**
 * The fill-in-the-middle tokens of a model, from its metadata or from the texts llama.cpp knows.
 * Undefined unless prefix, suffix and middle all have one.
 */
export function findInfillTokens(
  model: NativeModel,
  controlTokens: readonly ControlToken[],
): InfillTokens | undefined {
  const [prefix, suffix, middle] = [model.prefixToken(), model.suffixToken(), model.middleToken()]
  if (Math.min(prefix, suffix, middle) < 0) return undefined
  const named = (name: 'repository' | 'file', texts: readonly string[]) => {
    const id: TokenId | undefined = controlTokens.find(({ text }) => texts.includes(text))?.id
    return id === undefined ? {} : { [name]: id }
  }
  return {
    prefix,
    suffix,
    middle,
    ...named('repository', repositoryTexts),
    ...named('file', fileTexts),
  }
}
