import { type EngineClient, overriding } from '@cllm/core'
import type { Preamble } from '../chat/preamble.js'
import type { ProtocolDefaults } from './protocol-defaults.js'

/** What a model has of its own that was made of another one, where a request says nothing. */
export interface ModelDefaults extends Pick<ProtocolDefaults, 'stop'> {
  /** Default: as the protocol has it. */
  readonly maxTokens?: number | undefined
  readonly sampling: NonNullable<ProtocolDefaults['set']>
  /** Default: nothing comes before a conversation. */
  readonly preamble?: Preamble | undefined
}

const key = Symbol('defaults of a model')

/** The same client, for a model that has defaults; what is put around it has them, too. */
export const havingDefaults = (client: EngineClient, defaults: ModelDefaults): EngineClient =>
  overriding(client, { [key]: defaults } as Partial<EngineClient>)

const defaultsOf = (client: EngineClient): ModelDefaults | undefined =>
  (client as { readonly [key]?: ModelDefaults })[key]

/** What comes before every conversation with a client's model, if anything. */
export const preambleOf = (client: EngineClient): Preamble | undefined =>
  defaultsOf(client)?.preamble

/** A route's defaults, with the model's in place of them: also of those that an operator has set. */
export function withModelDefaults(
  client: EngineClient,
  defaults: ProtocolDefaults,
): ProtocolDefaults {
  const own = defaultsOf(client)
  if (own === undefined) return defaults
  return {
    ...defaults,
    maxTokens: own.maxTokens ?? defaults.maxTokens,
    set: { ...defaults.set, ...own.sampling },
    stop: own.stop,
  }
}
