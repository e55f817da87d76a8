import { option } from './option.js'
import { resolvePath } from '../paths.js'
import { presets } from '../presets.js'
import {
  aliases,
  keepAlive,
  normalizeAliases,
  normalizeServed,
  resolveServed,
  servedModels,
} from '../served-models.js'
import { emptyToNone, integer, orAuto, orNone, someTexts, text, toggle } from './value-format.js'

/** The options for several models: the branch `models` of the schema. */
export const modelOptions = {
  served: option({
    doc:
      'Several models to serve, each by its name, instead of `model.spec`; the first is the ' +
      'default. In YAML each is a key of `models` itself, with a spec or `{ spec, … }`, where ' +
      '`chat_template`, `keep_alive` and settings of `engine` apply to that model only. The flag ' +
      '`--model NAME=SPEC`, repeated, does the same.',
    default: {},
    format: servedModels(),
    arg: 'models',
    placeholder: 'NAME=SPEC,…',
    normalize: normalizeServed,
    resolve: resolveServed,
  }),
  aliases: option({
    doc:
      'Further names for models: `ALIAS=NAME`, or `ALIAS` for the default model; `*` matches ' +
      'every unknown name. The flag can be repeated.',
    default: {},
    format: aliases(),
    arg: 'model-alias',
    placeholder: 'ALIAS=NAME',
    normalize: normalizeAliases,
  }),
  presets: option({
    doc:
      'Further names for models, with values for the fields that requests leave out, in every API: ' +
      '`NAME: { from: MODEL, system: TEXT, parameters: { temperature: 0.3, stop: [TEXT] } }`. ' +
      '`parameters` has the names of `api.defaults`, and `stop`. As a flag: JSON.',
    default: {},
    format: presets(),
    arg: 'presets',
    placeholder: 'JSON',
  }),
  tags: option<readonly string[]>({
    doc: 'Tags shown with each model in lists, for clients that sort by them.',
    default: [],
    format: someTexts('words'),
    arg: 'model-tags',
    placeholder: 'WORD,…',
  }),
  preload: option<readonly string[]>({
    doc:
      'Models to load before the server is ready, `*` for all; the others are loaded on ' +
      'first use. A single model is always preloaded.',
    default: [],
    format: someTexts('names of models'),
    arg: 'preload',
    placeholder: 'NAMES',
  }),
  max_loaded: option({
    doc:
      'Maximum number of models in memory; the least recently used one is unloaded to make ' +
      'room. `auto` is as many as fit.',
    default: 'auto',
    format: orAuto(integer({ minimum: 1 })),
    arg: 'max-loaded-models',
    placeholder: 'COUNT',
  }),
  autoload: option({
    doc:
      'Load a model when a request asks for it. Off: such a request is refused with 400, ' +
      'and only `POST /models/load` and `--preload` load models.',
    default: true,
    format: toggle(),
    arg: 'models-autoload',
  }),
  keep_alive: option({
    doc:
      'Time that a model stays in memory after its last use: seconds, or a duration such ' +
      'as `5m`; `-1` is forever. `auto` is forever for a single model, `5m` for several.',
    default: 'auto',
    format: orAuto(keepAlive()),
    arg: 'keep-alive',
    placeholder: 'DURATION',
  }),
  cache: option<string | null>({
    doc: "Folder for downloaded models; by default one in the user's cache folder.",
    default: null,
    format: orNone(text('a folder')),
    arg: 'models-cache',
    env: 'CLLM_CACHE',
    placeholder: 'FOLDER',
    normalize: emptyToNone,
    resolve: resolvePath,
  }),
}
