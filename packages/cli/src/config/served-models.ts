import { parseKeepAlive } from '@cllm/http-koa'
import { resolveModelSpec, resolveTemplate } from './paths.js'
import { format, isRecord, splitAtCommas, type ValueFormat } from './value-format.js'

/** What holds for one of several models alone. */
export interface OwnSettings {
  readonly chat_template?: string
  readonly keep_alive?: string | number
  /** Settings of `engine`. */
  readonly [setting: string]: unknown
}

/** A model that is served by a name. */
export interface ServedModel extends OwnSettings {
  readonly spec: string
}

/** `NAME=SPEC`, unless what is before the sign is a part of a path. */
export const readPair = (text: string): readonly [name: string, value: string] | undefined => {
  const [, name, value] = /^([^=/\\~]+)=(.+)$/.exec(text) ?? []
  return name === undefined || value === undefined ? undefined : [name.trim(), value.trim()]
}

const pairs = (text: string): unknown => {
  const all = splitAtCommas(text).map(readPair)
  return all.every((pair) => pair !== undefined) ? Object.fromEntries(all) : text
}

/** Names with their models. What is wrong inside is told by `checkModels`. */
export const servedModels = (): ValueFormat<Readonly<Record<string, ServedModel>>> =>
  format(
    'names with their specs',
    (value) =>
      isRecord(value) &&
      Object.values(value).every((one) => isRecord(one) && typeof one['spec'] === 'string'),
    pairs,
  )

/** A spec alone stands for a model without settings of its own. */
export const normalizeServed = (value: unknown): unknown =>
  isRecord(value)
    ? Object.fromEntries(
        Object.entries(value).map(([name, one]) => [
          name,
          typeof one === 'string' ? { spec: one } : one,
        ]),
      )
    : value

/** Makes the paths in it absolute. */
export const resolveServed = (
  models: Readonly<Record<string, ServedModel>>,
  folder: string,
): Readonly<Record<string, ServedModel>> =>
  Object.fromEntries(
    Object.entries(models).map(([name, { spec, chat_template: template, ...settings }]) => [
      name,
      {
        spec: resolveModelSpec(spec, folder),
        ...(typeof template === 'string'
          ? { chat_template: resolveTemplate(template, folder)! }
          : {}),
        ...settings,
      },
    ]),
  )

/** Names that stand for models, by which one; null is the default one. */
export const aliases = (): ValueFormat<Readonly<Record<string, string | null>>> =>
  format(
    'aliases with the names of models',
    (value) =>
      isRecord(value) &&
      Object.values(value).every((name) => name === null || typeof name === 'string'),
    splitAtCommas,
  )

/** A list of `ALIAS=NAME` and `ALIAS` is as good as a map. */
export const normalizeAliases = (value: unknown): unknown =>
  Array.isArray(value) && value.every((one) => typeof one === 'string')
    ? Object.fromEntries(value.map((one) => readPair(one) ?? [one, null]))
    : value

/** How long a model stays in memory. */
export const keepAlive = (): ValueFormat<string | number> =>
  format(
    'a number of seconds or a duration such as 5m',
    (value) => parseKeepAlive(value) !== undefined,
  )
