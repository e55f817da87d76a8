import { resolvePath } from '../paths.js'
import { type Option, option } from './option.js'
import { emptyToNone, orNone, text } from './value-format.js'

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
