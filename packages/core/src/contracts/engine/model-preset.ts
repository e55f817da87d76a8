import type { ChatMessage } from '../model/tokenizer.js'
import type { SamplingParams } from '../model/sampling.js'

/** A model under a name of its own, with values for the fields that requests leave out. */
export interface ModelPreset {
  /** What clients call it. */
  readonly name: string
  /** The model that answers: a name that the server serves. A preset may have that name itself. */
  readonly from: string
  /** The system message of conversations that have none. Default: none. */
  readonly system?: string | undefined
  /** Messages before every conversation. Default: none. */
  readonly messages?: readonly ChatMessage[]
  /** Most tokens of an answer. Default: as the protocol has it. */
  readonly maxTokens?: number | undefined
  /** Default: as the protocol and the model have it. */
  readonly sampling?: Partial<SamplingParams> | undefined
  /** Texts before which an answer ends. Default: none. */
  readonly stop?: readonly string[] | undefined
}

/** The presets of a server's models. Names match with and without Ollama's `:latest`. */
export interface ModelPresets {
  /** Presets whose model is there, without those that have the name of another model. */
  list(): readonly ModelPreset[]
  /** The preset of a name; undefined also while another model has this name. */
  find(name: string): ModelPreset | undefined
  /**
   * Whether a preset can be added.
   *
   * @throws `invalid_request` for a name that a model of the server has, or none, and beyond 1,000 presets or
   *   16 MiB of them
   */
  check(preset: ModelPreset): void
  /**
   * Adds a preset, in place of one of the same name; it lives as long as the server.
   *
   * @throws `invalid_request` beyond the limits of {@link ModelPresets.check}
   */
  add(preset: ModelPreset): void
  /** Removes a preset, if there is one of this name. */
  remove(name: string): void
}
