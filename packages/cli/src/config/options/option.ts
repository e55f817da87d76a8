import { type ValueFormat, emptyToNone, orNone, text } from './value-format.js'
import { resolvePath } from '../paths.js'

/** The properties of an option besides its format and its default. */
interface OptionDetails<T> {
  /** Its flag, without the dashes. Default: its name in YAML, with `-` for `_`. */
  readonly flag?: string
  /** Its environment variable. Default: that of its flag. */
  readonly env?: string
  /** Placeholder for its value in help. Default: the format's. */
  readonly placeholder?: string
  /** Whether its value must never be shown. */
  readonly isSecret?: boolean
  /** Converts the forms that a user may write to the value that the format accepts. */
  readonly normalize?: (value: unknown) => unknown
  /** Makes relative paths absolute: the folder is the YAML file's, or the working directory. */
  readonly resolve?: (value: T, folder: string) => T
  /**
   * The backend's option that it sets, as a path such as `rope.scaling`; `auto`, none and an empty list leave
   * that option out. Default: none.
   */
  readonly backend?: string
  /** The same for an option that only llama.cpp's backend has. */
  readonly llamaCpp?: string
}

/** One setting. Its place in the schema is its path in the YAML file and in the configuration. */
export interface Option<T> extends OptionDetails<T> {
  readonly doc: string
  readonly default: T
  readonly format: ValueFormat<T>
}

/** The environment variable of a flag, unless an option names another one. */
export const variable = (flag: string): string => `CLLM_${flag.toUpperCase().replaceAll('-', '_')}`

/** Creates an option: `option(integer(1), 8).describe('What it is for.')`. */
export const option = <T>(
  format: ValueFormat<T>,
  value: NoInfer<T>,
  details: OptionDetails<NoInfer<T>> = {},
): { readonly describe: (doc: string) => Option<T> } => ({
  describe: (doc) => ({ ...details, doc, format, default: value }),
})

/** A tree of options. */
export interface OptionTree {
  readonly [name: string]: Option<never> | OptionTree
}

/** The type of the values for a tree of options. */
export type OptionValues<Tree> = {
  readonly [Name in keyof Tree]: Tree[Name] extends Option<infer T> ? T : OptionValues<Tree[Name]>
}

/** An option with its path, such as `server.port`, and everything that it leaves to a default. */
export interface PlacedOption extends Required<Omit<Option<unknown>, 'backend' | 'llamaCpp'>> {
  readonly path: string
  readonly backend?: string
  readonly llamaCpp?: string
}

const isOption = (node: object): node is Option<unknown> => 'format' in node && 'default' in node

/** All options of a tree, in its order. */
export const placeOptions = (tree: object, prefix = ''): readonly PlacedOption[] =>
  Object.entries(tree).flatMap(([name, node]: [string, object]) => {
    const path = `${prefix}${name}`
    if (!isOption(node)) return placeOptions(node, `${path}.`)
    const { flag = name.replaceAll('_', '-'), format } = node
    const defaults = {
      env: variable(flag),
      placeholder: format.placeholder,
      isSecret: false,
      normalize: (value: unknown) => value,
      resolve: (value: unknown) => value,
    }
    return [{ ...defaults, ...node, path, flag }]
  })

/** An option with the path of a file or folder; by default none. */
const pathOption =
  (expected: string) =>
  (details: OptionDetails<string | null> = {}) =>
    option<string | null>(orNone(text(expected)), null, {
      normalize: emptyToNone,
      resolve: resolvePath,
      ...details,
    })

/** An option that names a file; by default none. */
export const file = pathOption('a file')

/** An option that names a folder; by default none. */
export const folder = pathOption('a folder')
