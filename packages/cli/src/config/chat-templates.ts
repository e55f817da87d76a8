import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { orInvalid } from './messages.js'
import { readData } from './read-data.js'

/** The chat templates that llama-server knows by name; they write what its own do. */
const templates = readData('chat-templates') as Readonly<Record<string, string>>

/** The names for `--chat-template NAME`, in the order of the alphabet. */
export const templateNames: readonly string[] = Object.keys(templates)

/** The Jinja template that llama-server knows by this name; undefined: there is none. */
export const namedTemplate = (name: string): string | undefined =>
  Object.hasOwn(templates, name) ? templates[name] : undefined

/** Whether a chat template is given as Jinja and not as a file. */
const isInlineTemplate = (template: string): boolean => /\{\{|\{%/.test(template)

/** Whether it is given as text without Jinja, which is every prompt then: words without a path or an ending. */
export const isPlainTemplate = (template: string): boolean =>
  /\s/.test(template) && !/[/\\]|\.\w+$/.test(template)

/** Makes the path of a chat template absolute, if it is one. */
export const resolveTemplate = (template: string | null, folder: string): string | null => {
  if (template === null || isInlineTemplate(template) || namedTemplate(template) !== undefined)
    return template
  const file = path.resolve(folder, template)
  return isPlainTemplate(template) && !existsSync(file) ? template : file
}

/**
 * The text of `model.chat_template`, which is the template itself, a file with it, or the name of one that
 * llama-server knows.
 *
 * @throws `invalid_configuration` when the file cannot be read.
 */
export const readChatTemplate = (template: string | null = null): string | undefined => {
  if (template === null || isInlineTemplate(template) || isPlainTemplate(template))
    return template ?? undefined
  return (
    namedTemplate(template) ??
    orInvalid(
      () => readFileSync(template, 'utf8'),
      (reason) =>
        `model.chat_template: ${template} is neither a Jinja template nor a file with one, nor one of ` +
        `${templateNames.join(', ')}: ${reason}`,
    )
  )
}
