import { folderOption } from './folder-option.js'
import { option } from './option.js'
import { emptyToNone, integer, orAuto, orNone, text } from './value-format.js'

/** The options for what slots held and others may want again: the branch `cache` of the schema. */
export const cacheOptions = {
  ram: option<number | 'auto'>({
    doc:
      'RAM for conversations whose slot was given to another request, in MiB: the next request of one ' +
      'gets it back and computes only what is new. `auto` is 8192, or a quarter of the free memory if ' +
      'that is less, shared by all models; 0 keeps nothing.',
    default: 'auto',
    format: orAuto(integer({ minimum: 0 })),
    arg: 'cache-ram',
    placeholder: 'MIB',
  }),
  disk: folderOption({
    doc:
      'Folder where what `ram` keeps is also written to, so that it survives a restart or a crash. Only ' +
      'its owner can read it; it holds what users wrote. By default, nothing is written.',
    arg: 'cache-disk',
  }),
  disk_size: option({
    doc: 'Most that the files of `disk` take, in MiB; those unused for the longest time go first.',
    default: 10_240,
    format: integer({ minimum: 1 }),
    arg: 'cache-disk-size',
    placeholder: 'MIB',
  }),
  disk_age: option({
    doc: 'Days after which a file of `disk` that nobody used is removed.',
    default: 30,
    format: integer({ minimum: 1 }),
    arg: 'cache-disk-age',
    placeholder: 'DAYS',
  }),
  key: option<string | null>({
    doc:
      'What the files of `disk` and `slot_save_path` are encrypted with (AES-256-GCM), such as the output of ' +
      '`openssl rand -hex 32`; those of another key are ignored. Prefer the variable: other users of the ' +
      'machine can see flags. By default, nothing is encrypted.',
    default: null,
    format: orNone(text('a key')),
    arg: 'cache-key',
    placeholder: 'KEY',
    normalize: emptyToNone,
    isSecret: true,
  }),
  slot_save_path: folderOption({
    doc:
      'Folder of the files that `POST /slots/{id}?action=save` and `restore` name; without it, both are ' +
      'refused.',
    arg: 'slot-save-path',
  }),
}
