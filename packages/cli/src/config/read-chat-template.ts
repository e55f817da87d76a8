import { readFileSync } from 'node:fs'
import { CllmError } from '@cllm/core'
import { isInlineTemplate, isPlainTemplate, namedTemplate, templateNames } from './paths.js'

/**
 * The text of `model.chat_template`, which is the template itself, a file with it, or the name of one that
 * llama-server knows.
 *
 * @throws `invalid_configuration` when the file cannot be read.
 */
export const readChatTemplate = (template: string | null): string | undefined => {
  if (template === null) return undefined
  if (isInlineTemplate(template) || isPlainTemplate(template)) return template
  const named = namedTemplate(template)
  if (named !== undefined) return named
  try {
    return readFileSync(template, 'utf8')
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new CllmError(
      'invalid_configuration',
      `model.chat_template: ${template} is neither a Jinja template nor a file with one, nor one of ` +
        `${templateNames.join(', ')}: ${reason}`,
      { cause },
    )
  }
}
