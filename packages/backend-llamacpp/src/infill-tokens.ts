import type { InfillTokens, TokenId } from '@cllm/core'
import type { NativeModel } from './native.js'
import type { ControlToken } from './vocabulary.js'

/** How models write these two; llama.cpp knows the same ones but does not tell. */
const repositoryTexts = ['<|repo_name|>', '<fim-repo>', '<repo_name>', '<reponame>']
const fileTexts = ['<|file_sep|>', '<|file_separator|>', '<file_sep>']

/**
 * What marks gaps for a model: by the keys of its file or by the texts that llama.cpp knows.
 * Undefined where one of the three parts has none.
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
