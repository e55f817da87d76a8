import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { readData } from './read-data.js'

/** Makes a relative path absolute. */
export const resolvePath = (value: string | null, folder: string): string | null =>
  value === null ? value : path.resolve(folder, value)

/** The scheme of `scheme:rest`; a single letter is a Windows drive instead. */
export const schemeOf = (spec: string): string | undefined =>
  /^([a-z][a-z0-9+.-]+):/.exec(spec)?.[1]

const isPath = (spec: string) => schemeOf(spec) === undefined && /[/\\]|\.gguf$/i.test(spec)

/**
 * The same for a model's spec, which can also be a catalog name, `hf:owner/repo` or `scheme:rest`.
 * `~/` is the user's home folder: no shell expands it in a file or in `--model=~/…`.
 */
export const resolveModelSpec = (spec: string, folder: string): string => {
  if (/^~[/\\]/.test(spec)) return path.join(homedir(), spec.slice(2))
  return isPath(spec) ? path.resolve(folder, spec) : spec
}

/** The chat templates that llama-server knows by name; they write what its own do. */
const templates = readData('chat-templates') as Readonly<Record<string, string>>

/** The names for `--chat-template NAME`, in the order of the alphabet. */
export const templateNames: readonly string[] = Object.keys(templates)

/** The Jinja template that llama-server knows by this name; undefined: there is none. */
export const namedTemplate = (name: string): string | undefined =>
  Object.hasOwn(templates, name) ? templates[name] : undefined

/** Whether a chat template is given as Jinja and not as a file. */
export const isInlineTemplate = (template: string): boolean => /\{\{|\{%/.test(template)

/** Whether it is given as text without Jinja, which is every prompt then: words without a path or an ending. */
export const isPlainTemplate = (template: string): boolean =>
  /\s/.test(template) && !/[/\\]|\.\w+$/.test(template)

/** The same for a chat template. */
export const resolveTemplate = (template: string | null, folder: string): string | null => {
  if (template === null || isInlineTemplate(template) || namedTemplate(template) !== undefined)
    return template
  const file = path.resolve(folder, template)
  return isPlainTemplate(template) && !existsSync(file) ? template : file
}

/** The same for a plugin, which can also be the name of a package. */
export const resolvePluginName = (use: string, folder: string): string =>
  /^\.{0,2}[/\\]/.test(use) ? path.resolve(folder, use) : use
