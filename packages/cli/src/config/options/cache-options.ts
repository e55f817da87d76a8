import { option } from './option.js'
import { integer, orAuto } from './value-format.js'

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
}
