import { option } from './option.js'
import { resolvePath } from './paths.js'
import {
  aliases,
  keepAlive,
  normalizeAliases,
  normalizeServed,
  resolveServed,
  servedModels,
} from './served-models.js'
import { integer, orAuto, orNone, someTexts, text } from './value-format.js'

const emptyToNone = (value: unknown) => (value === '' ? null : value)

/** The options for several models: the branch `models` of the schema. */
export const modelOptions = {
  served: option({
    doc:
      'Several models to serve, each by its name, in place of `model.spec`; the first is the ' +
      'default. In YAML each is a key of `models` itself, with a spec or `{ spec, … }` where `chat_template`, `keep_alive` ' +
      'and settings of `engine` hold for it alone. `--model NAME=SPEC`, repeated, says the same.',
    default: {},
    format: servedModels(),
    arg: 'models',
    placeholder: 'NAME=SPEC,…',
    normalize: normalizeServed,
    resolve: resolveServed,
  }),
  aliases: option({
    doc:
      'Further names of models, `ALIAS=NAME`, or `ALIAS` for the default one; `*` stands for every ' +
      'name that is not known. The flag can be repeated.',
    default: {},
    format: aliases(),
    arg: 'model-alias',
    placeholder: 'ALIAS=NAME',
    normalize: normalizeAliases,
  }),
  preload: option<readonly string[]>({
    doc:
      'Models that are loaded before the server listens, `*` for all; others are when they are ' +
      'first used. A single model always is.',
    default: [],
    format: someTexts('names of models'),
    arg: 'preload',
    placeholder: 'NAMES',
  }),
  max_loaded: option({
    doc:
      'Models in memory at a time; the least recently used one makes room. `auto`: as many as fit ' +
      'into memory.',
    default: 'auto',
    format: orAuto(integer({ minimum: 1 })),
    arg: 'max-loaded-models',
    placeholder: 'COUNT',
  }),
  keep_alive: option({
    doc:
      'How long a model stays in memory after its last use: seconds or a duration such as `5m`; ' +
      '`-1` is for good. `auto`: a single model for good, several `5m`.',
    default: 'auto',
    format: orAuto(keepAlive()),
    arg: 'keep-alive',
    placeholder: 'DURATION',
  }),
  cache: option<string | null>({
    doc: "Folder that models are fetched into; by default one in the user's cache folder.",
    default: null,
    format: orNone(text('a folder')),
    arg: 'models-cache',
    env: 'CLLM_CACHE',
    placeholder: 'FOLDER',
    normalize: emptyToNone,
    resolve: resolvePath,
  }),
}
