import { homedir, userInfo } from 'node:os'
import path from 'node:path'
import { readFileSync, existsSync } from 'node:fs'
import { type AdapterSource, ownEntry } from '@cllm/core'
import { entryOf } from '@cllm/core/defined'
import { checkIsFile } from '@cllm/backend-llamacpp/sample-file'
import { orInvalid } from './messages.js'
import { format, splitAtCommas, type ValueFormat } from './options/value-format.js'

/**
 * The user's home folder. With an empty `HOME`, its files would end up in the working folder, so the system is asked.
 *
 * @throws `invalid_configuration` when there is none
 */
export const homeFolder = (): string =>
  orInvalid(() => homedir() || userInfo().homedir, 'HOME: expected a folder, this user has none')

/** Makes a relative path absolute. */
export const resolvePath = (value: string | null, folder: string): string | null =>
  value === null ? value : path.resolve(folder, value)

/** Stands for the cluster's server in place of a folder. */
export const ofCluster = 'cluster'

/** {@link resolvePath} for a folder, which can also be the cluster's server. */
export const resolveShared = (value: string | null, folder: string): string | null =>
  value === ofCluster ? value : resolvePath(value, folder)

/** {@link resolvePath} for a projector, which can also be `auto` or `none`. */
export const resolveProjector = (value: string | null, folder: string): string | null => {
  if (value === 'none') return null
  return value === 'auto' ? value : resolvePath(value, folder)
}

/** The scheme of `scheme:rest`; a single letter is a Windows drive instead. */
export const schemeOf = (spec: string): string | undefined =>
  /^([a-z][a-z0-9+.-]+):/.exec(spec)?.[1]

const isPath = (spec: string) => schemeOf(spec) === undefined && /[/\\]|\.gguf$/i.test(spec)

/**
 * {@link resolvePath} for a model's spec, which can also be a catalog name, `hf:owner/repo` or `scheme:rest`. `~/` is
 * the user's home folder: no shell expands it in a file or in `--model=~/…`.
 */
export const resolveModelSpec = (spec: string, folder: string): string => {
  if (/^~[/\\]/.test(spec)) return path.join(homeFolder(), spec.slice(2))
  return isPath(spec) ? path.resolve(folder, spec) : spec
}

/** {@link resolvePath} for a plugin, which can also be the name of a package. */
export const resolvePluginName = (use: string, folder: string): string =>
  /^\.{0,2}[/\\]/.test(use) ? path.resolve(folder, use) : use

/** A table of the package, in `data/NAME.json`. */
export const readData = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../data/${name}.json`, import.meta.url), 'utf8'))

/** The chat templates that llama-server knows by name; they make the same prompts as its own. */
const templates = readData('chat-templates') as Readonly<Record<string, string>>

/** The names for `--chat-template NAME`, in the order of the alphabet. */
export const templateNames: readonly string[] = Object.keys(templates)

/** The Jinja template that llama-server knows by this name; undefined: there is none. */
export const namedTemplate = (name: string): string | undefined => ownEntry(templates, name)

/** Whether a chat template is given as Jinja and not as a file. */
const isInlineTemplate = (template: string): boolean => /\{\{|\{%/.test(template)

/**
 * Whether a chat template is text without Jinja, which then is every prompt: words that look like neither a path nor a
 * file.
 */
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
 * The text of a file that a setting names. A pipe could hold up the start for ever, unless it is in `/dev`: a shell
 * writes to that.
 */
export function readNamed(file: string): string {
  if (!/^\/(dev|proc)\//.test(file)) checkIsFile(file, `a file at ${file}`)
  return readFileSync(file, 'utf8')
}

const authorities = new Map<string, string>()

/**
 * The certificate authority of the cluster's server. The file is read once: it may be a pipe, and engines start again.
 *
 * @throws `invalid_configuration` when it cannot be read
 */
export const readAuthority = (file: string): string =>
  entryOf(authorities, file, () =>
    orInvalid(() => readNamed(file), '--cluster-ca: the file cannot be read'),
  )

/**
 * The text of `model.chat_template`, which is the template itself, a file with it, or the name of one that
 * llama-server knows.
 *
 * @throws `invalid_configuration` when the file cannot be read.
 */
export const readChatTemplate = (template: string | null = null): string | undefined => {
  if (template === null || isInlineTemplate(template) || isPlainTemplate(template))
    return template ?? undefined
  const names = templateNames.join(', ')
  const problem = `model.chat_template: ${template} is neither a Jinja template nor a file with one, nor one of ${names}`
  return namedTemplate(template) ?? orInvalid(() => readNamed(template), problem)
}

/** Matches `NAME=PATH[:SCALE]`. */
const pattern = /^([\w.-]{1,64})=(.+?)(?::([+-]?(?:\d+\.?\d*|\.\d+)))?$/

/** An adapter as the configuration has it; undefined for another text. */
function readAdapter(text: string): Omit<AdapterSource, 'id'> | undefined {
  const [, name, file, scale] = pattern.exec(text.trim()) ?? []
  if (name === undefined || file === undefined) return undefined
  return { name, path: file, ...(scale !== undefined && { scale: Number(scale) }) }
}

const isList = (value: unknown): boolean => {
  if (!Array.isArray(value)) return false
  const names = value.map((one) => (typeof one === 'string' ? readAdapter(one)?.name : undefined))
  return names.every((name) => name !== undefined) && new Set(names).size === names.length
}

/** Adapters, each `NAME=PATH` or `NAME=PATH:SCALE`, with different names. */
export const adapters = (): ValueFormat<readonly string[]> =>
  format('a list of NAME=PATH[:SCALE], each name once', isList, {
    parse: splitAtCommas,
    placeholder: 'NAME=PATH[:SCALE]',
  })

/** Makes the paths absolute. */
export const resolveAdapters = (texts: readonly string[], folder: string): readonly string[] =>
  texts.map((text) => {
    const { name, path: file, scale } = readAdapter(text) ?? {}
    if (name === undefined || file === undefined) return text
    return `${name}=${path.resolve(folder, file)}${scale === undefined ? '' : `:${scale}`}`
  })

/** The adapters of a setting that was checked. */
export const adaptersOf = (texts: readonly string[]): AdapterSource[] =>
  texts.flatMap((text) => readAdapter(text) ?? [])
