import type { PartToken } from '../contracts/plugin.js'
import * as tokens from '../tokens.js'
import * as parts from '../engine/engine-parts.js'

/** The parts of an engine that plug-ins can replace, by the names that settings use. */
export const replaceableParts: Readonly<Record<string, PartToken<unknown>>> = {
  admission: parts.ADMISSION,
  'kv-cache-manager': parts.KV_CACHE_MANAGER,
  logger: tokens.LOGGER,
  'prefix-index': parts.PREFIX_INDEX,
  tokenizer: tokens.TOKENIZER,
  'wait-predictor': parts.WAIT_PREDICTOR,
}

/** Which provided part is used in place of a built-in one: its name, by the part's. */
export type PartChoice = Readonly<Record<string, string>>
