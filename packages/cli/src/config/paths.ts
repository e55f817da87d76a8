import { homedir } from 'node:os'
import path from 'node:path'

/** Makes a relative path absolute. */
export const resolvePath = (value: string | null, folder: string): string | null =>
  value === null ? value : path.resolve(folder, value)

const isPath = (spec: string) => !spec.startsWith('hf:') && /[/\\]|\.gguf$/i.test(spec)

/**
 * The same for a model's spec, which can also be a catalog name or `hf:owner/repo`. `~/` is the user's
 * home folder: no shell has replaced it in a file, nor in `--model=~/…`.
 */
export const resolveModelSpec = (spec: string, folder: string): string => {
  if (/^~[/\\]/.test(spec)) return path.join(homedir(), spec.slice(2))
  return isPath(spec) ? path.resolve(folder, spec) : spec
}

/** Whether a chat template is given as its text and not as a file that holds it. */
export const isInlineTemplate = (template: string): boolean => /\{\{|\{%/.test(template)

/** The same for a chat template. */
export const resolveTemplate = (template: string | null, folder: string): string | null =>
  template === null || isInlineTemplate(template) ? template : path.resolve(folder, template)

/** The same for a plugin, which can also be the name of a package. */
export const resolvePluginName = (use: string, folder: string): string =>
  /^\.{0,2}[/\\]/.test(use) ? path.resolve(folder, use) : use
