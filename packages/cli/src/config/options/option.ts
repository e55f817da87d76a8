import { type ValueFormat, emptyToNone, orNone, text } from './value-format.js'
import { resolvePath } from '../paths.js'

/** One setting. Its place in the schema is its path in the YAML file and in the configuration. */
export interface Option<T> {
  readonly doc: string
  readonly default: T
  readonly format: ValueFormat<T>
  /** Its flag, without the dashes. */
  readonly arg: string
  /** Its environment variable. */
  readonly env: string
  /** Placeholder for its value in help, such as `FILE`. */
  readonly placeholder: string
  /** Whether its value must never be shown. */
  readonly isSecret: boolean
  /** Converts the forms that a user may write to the value that `format` accepts. */
  readonly normalize: (value: unknown) => unknown
  /**
   * The backend's option that it sets, as a path such as `rope.scaling`; `auto`, none and an empty list leave
   * that option out. Default: none.
   */
  readonly backendOption?: string
  /** The same for an option that only llama.cpp's backend has. */
  readonly llamaCppOption?: string
  /** Makes relative paths absolute: the folder is the YAML file's, or the working directory. */
  readonly resolve: (value: T, folder: string) => T
}

/** The environment variable of a flag, unless an option names another one. */
export const variable = (flag: string): string => `CLLM_${flag.toUpperCase().replaceAll('-', '_')}`

/** Creates an option, with defaults for the fields that are not given. */
export const option = <T>(
  particulars: Pick<Option<T>, 'doc' | 'format' | 'arg'> & {
    readonly default: NoInfer<T>
  } & Partial<Option<NoInfer<T>>>,
): Option<T> => ({
  env: variable(particulars.arg),
  placeholder: 'VALUE',
  isSecret: false,
  normalize: (value) => value,
  resolve: (value) => value,
  ...particulars,
})

/** A tree of options. */
export interface OptionTree {
  readonly [name: string]: Option<never> | OptionTree
}

/** The type of the values for a tree of options. */
export type OptionValues<Tree> = {
  readonly [Name in keyof Tree]: Tree[Name] extends Option<infer T> ? T : OptionValues<Tree[Name]>
}

/** An option with its path, such as `server.port`. */
export interface PlacedOption extends Option<unknown> {
  readonly path: string
}

const isOption = (node: object): node is Option<unknown> => 'format' in node && 'default' in node

/** All options of a tree, in its order. */
export const placeOptions = (tree: object, prefix = ''): readonly PlacedOption[] =>
  Object.entries(tree).flatMap(([name, node]: [string, object]) => {
    const path = `${prefix}${name}`
    return isOption(node) ? [{ ...node, path }] : placeOptions(node, `${path}.`)
  })

/** An option that names a folder; by default none. */
export const folderOption = ({ doc, arg }: Pick<Option<unknown>, 'doc' | 'arg'>) =>
  option<string | null>({
    doc,
    default: null,
    format: orNone(text('a folder')),
    arg,
    placeholder: 'FOLDER',
    normalize: emptyToNone,
    resolve: resolvePath,
  })
