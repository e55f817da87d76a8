import { folderOption, option } from './option.js'
import { emptyToNone, integer, orAuto, orNone, text } from './value-format.js'

/** The options for what slots held and others may want again: the branch `cache` of the schema. */
export const cacheOptions = {
  ram: option<number | 'auto'>({
    doc:
      'RAM for saved conversations, in MiB, shared by all models: a conversation that lost ' +
      'its slot to another request gets its state back, and its next request computes only ' +
      'the new tokens. `auto` is 8192, or a quarter of the free memory if that is less; 0 ' +
      'saves nothing.',
    default: 'auto',
    format: orAuto(integer({ minimum: 0 })),
    arg: 'cache-ram',
    placeholder: 'MIB',
  }),
  disk: folderOption({
    doc:
      'Folder for copies of the conversations in `cache.ram`, which then survive a restart ' +
      'or a crash. The files hold what users wrote; only their owner can read them. Unset: ' +
      'nothing is written.',
    arg: 'cache-disk',
  }),
  disk_size: option({
    doc: 'Disk limit for `cache.disk`, in MiB; the least recently used files are deleted first.',
    default: 10_240,
    format: integer({ minimum: 1 }),
    arg: 'cache-disk-size',
    placeholder: 'MIB',
  }),
  disk_age: option({
    doc: 'Days after which an unused file in `cache.disk` is deleted.',
    default: 30,
    format: integer({ minimum: 1 }),
    arg: 'cache-disk-age',
    placeholder: 'DAYS',
  }),
  key: option<string | null>({
    doc:
      'Encryption key (AES-256-GCM) for the files in `cache.disk` and ' +
      '`cache.slot_save_path`, such as the output of `openssl rand -hex 32`; files ' +
      'encrypted with another key are ignored. Prefer the variable: other users of the ' +
      'machine can see flags. Unset: files are not encrypted.',
    default: null,
    format: orNone(text('a key')),
    arg: 'cache-key',
    placeholder: 'KEY',
    normalize: emptyToNone,
    isSecret: true,
  }),
  slot_save_path: folderOption({
    doc:
      'Folder for the files of `POST /slots/{id}?action=save` and `restore`. Unset: both ' +
      'are refused.',
    arg: 'slot-save-path',
  }),
}
