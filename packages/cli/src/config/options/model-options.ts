import { defaultMaxTokens, defaultSampling, samplingRows } from '@cllm/core'
import type { samplingFields, SamplingNumber } from '@cllm/core'
import { folder, option, type Option } from './option.js'
import {
  presets,
  aliases,
  keepAlive,
  normalizeAliases,
  normalizeServed,
  resolveServed,
  servedModels,
} from '../served-models.js'
import {
  integer,
  orAuto,
  record,
  someTexts,
  text,
  toggle,
  decimal,
  orNone,
} from './value-format.js'

/** The options for several models: the branch `models` of the schema. */
export const severalModelsOptions = {
  served: option(
    servedModels(),
    {},
    { flag: 'models', normalize: normalizeServed, resolve: resolveServed },
  ).describe(
    'Several models by name, instead of `model.spec`; the first is the default. In YAML each is a key ' +
      'of `models` itself, with a spec or `{ spec, … }`, where `chat_template`, `keep_alive` and ' +
      'settings of `engine` apply to that model only. `--model NAME=SPEC`, repeated, does the same.',
  ),
  aliases: option(aliases(), {}, { flag: 'model-alias', normalize: normalizeAliases }).describe(
    'Further names for models: `ALIAS=NAME`, or `ALIAS` for the default model; `*` matches ' +
      'every unknown name. The flag can be repeated.',
  ),
  presets: option(presets(), {}).describe(
    'Further names for models, with values for fields that requests leave out: `NAME: { from: MODEL, ' +
      'system: TEXT, parameters: { temperature: 0.3, stop: [TEXT] } }`. `parameters` has the names of ' +
      '`api.defaults`, and `stop`. As a flag: JSON.',
  ),
  tags: option(someTexts('words', 'WORD,…'), [], { flag: 'model-tags' }).describe(
    'Tags shown with each model in lists, for clients that sort by them.',
  ),
  preload: option(someTexts('names of models', 'NAMES'), []).describe(
    'Models to load before the server is ready, `*` for all; the others are loaded on ' +
      'first use. A single model is always preloaded.',
  ),
  max_loaded: option(orAuto(integer(1)), 'auto', { flag: 'max-loaded-models' }).describe(
    'Most models in memory; `--model-scheduler` decides which makes ' +
      'room. `auto` is as many as fit.',
  ),
  scheduler: option(text('a name'), 'lru', { flag: 'model-scheduler' }).describe(
    "Which models are loaded, kept and unloaded: `lru`, `turns`, or a plugin's model scheduler.",
  ),
  scheduler_options: option(record(), {}, { flag: 'model-scheduler-options' }).describe(
    'Options of the model scheduler, such as `{ "patience": 2 }`; JSON in a flag or variable.',
  ),
  autoload: option(toggle(), true, { flag: 'models-autoload' }).describe(
    'Load a model when a request asks for it. Off: such a request is refused with 400, ' +
      'and only `POST /models/load` and `--preload` load models.',
  ),
  keep_alive: option(orAuto(keepAlive()), 'auto').describe(
    'Time that a model stays in memory after its last use; `-1` is forever. `auto` is forever for a ' +
      'single model, `5m` for several.',
  ),
  cache: folder({ flag: 'models-cache', env: 'CLLM_CACHE' }).describe(
    "Folder for downloaded models; by default one in the user's cache folder.",
  ),
}

type Fields = typeof samplingFields
type OptionName = {
  [Name in SamplingNumber]: Fields[Name] extends { option: string } ? Name : never
}[SamplingNumber]

/** Defaults of the native API that differ from the engine's. */
const native: Readonly<Partial<Record<SamplingNumber, number>>> = { topP: 0.9 }

/** An option for each sampling parameter that may have one. */
const sampling = Object.fromEntries(
  samplingRows.flatMap(([name, { wire, option: doc, integer: isWhole, usual, ...row }]) => {
    if (doc === undefined) return []
    const { min, max } = { ...row, ...usual }
    const format = isWhole === true ? integer(min, max) : decimal(min, max)
    const details = { flag: `default-${wire.replaceAll('_', '-')}` }
    const made = option(format, native[name] ?? defaultSampling[name], details).describe(doc)
    return [[wire, made]]
  }),
) as { readonly [Name in OptionName as Fields[Name]['wire']]: Option<number> }

const { temperature, ...others } = sampling

/** Defaults for fields that a request leaves out: the branch `api.defaults` of the schema. */
export const requestDefaults = {
  max_tokens: option(integer(1, Infinity, 'TOKENS'), defaultMaxTokens, {
    flag: 'default-max-tokens',
  }).describe('Maximum answer length, in tokens, for requests without a limit.'),
  temperature,
  seed: option(orNone(integer(0, 2 ** 32 - 1, 'NUMBER')), null, { flag: 'default-seed' }).describe(
    'Sampling seed; equal requests then get equal answers. Random by default.',
  ),
  ...others,
}
