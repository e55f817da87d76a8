import { volatileLines } from '@cllm/core'
import { folder, option } from './option.js'
import { emptyToNone, integer, orAuto, orNone, someTexts, text } from './value-format.js'

/** The options for what slots held and others may want again: the branch `cache` of the schema. */
export const cacheOptions = {
  ram: option(orAuto(integer(0, Infinity, 'MIB')), 'auto', { flag: 'cache-ram' }).describe(
    'RAM for conversations that lost their slot, in MiB, shared by all models; their next request ' +
      'computes only the new tokens. `auto` is 8192, or a quarter of the free memory if that is less; 0 ' +
      'saves nothing.',
  ),
  disk: folder({ flag: 'cache-disk' }).describe(
    'Folder for the conversations in `cache.ram`, which then survive a restart or a crash. The files ' +
      'hold what users wrote; only their owner can read them. Unset: none.',
  ),
  disk_size: option(integer(1, Infinity, 'MIB'), 10_240, { flag: 'cache-disk-size' }).describe(
    'Disk limit for `cache.disk`, in MiB; the least recently used files are deleted first.',
  ),
  disk_age: option(integer(1, Infinity, 'DAYS'), 30, { flag: 'cache-disk-age' }).describe(
    'Days after which an unused file in `cache.disk` is deleted.',
  ),
  key: option(orNone(text('a key')), null, {
    flag: 'cache-key',
    normalize: emptyToNone,
    isSecret: true,
  }).describe(
    'Encryption key (AES-256-GCM) for the files in `cache.disk` and `cache.slot_save_path`, such as ' +
      '`openssl rand -hex 32` prints; files of another key are ignored. Prefer the variable: other ' +
      'users of the machine can see flags. Unset: not encrypted.',
  ),
  volatile_lines: option(
    someTexts(volatileLines.join(', '), volatileLines.join(','), volatileLines),
    volatileLines,
  ).describe(
    'Lines of system messages that would change the beginning of every prompt: `billing` (of Claude ' +
      'Code) is left out, `clock` (such as `System time: …`) goes to the end of the last message. ' +
      'Empty: all stay as they are.',
  ),
  slot_save_path: folder().describe(
    'Folder for the files of `POST /slots/{id}?action=save` and `restore`. Unset: both ' +
      'are refused.',
  ),
}
