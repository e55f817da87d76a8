import type { TokenId, Tokenizer } from './tokenizer.js'

/** A JSON schema (draft 2020-12): an object of keywords, or true for anything and false for nothing. */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown }

/** The text around JSON, such as the marks of a tool call. */
export interface JsonSurroundings {
  /** A regular expression for the text before the JSON; default: no text. */
  readonly before?: string
  /** The text behind the JSON; default: none. */
  readonly closing?: string
  /** The text before further JSON of the same kind; default: there is only one. */
  readonly next?: string
}

/** JSON that is valid by a schema, with the text around it. */
export interface SurroundedJson extends JsonSurroundings {
  readonly schema: JsonSchema
}

/** JSON of one of several kinds, such as an answer or a tool call. */
export interface EitherJson extends SurroundedJson {
  /** Another kind that is allowed in its place; default: none. */
  readonly or?: EitherJson
}

/**
 * A constraint on a request's output. Only tokens that keep to it are sampled, and the model can only stop where it is
 * fulfilled: output that ends with `stop` (and neither at a stop text nor with `length`) fulfils it. A constraint that a
 * backend cannot honour throws `invalid_constraint` before any work, and is never ignored.
 */
export type OutputConstraint =
  /** A grammar in llama.cpp's GBNF notation. */
  | {
      readonly type: 'gbnf'
      readonly grammar: string
      /** The start rule; default `root`. */
      readonly root?: string
    }
  /** Text that a regular expression matches as a whole. */
  | { readonly type: 'regex'; readonly pattern: string }
  /** A JSON object. */
  | { readonly type: 'json' }
  /** JSON that is valid by a schema. */
  | ({ readonly type: 'json-schema' } & EitherJson)
  /**
   * Free text, followed by JSON that is valid by a schema, such as tool calls. The JSON begins where `trigger` matches the
   * text so far; without a match, all text is free.
   */
  | ({
      readonly type: 'triggered-json'
      /** A regular expression; the JSON begins at the end of its first match. */
      readonly trigger: string
    } & EitherJson)

/** What a plug-in's sampler is created with, once for each request. */
export interface SamplerContext {
  /** The model's vocabulary. Ids are 0 to `vocabularySize − 1`, as are the indexes of logits. */
  readonly tokenizer: Pick<
    Tokenizer,
    'vocabularySize' | 'encode' | 'decode' | 'bytesOf' | 'isEndOfGeneration'
  >
  /** The request's seed, 0 to 4294967295, for samplers that need random numbers. */
  readonly seed: number
}

/** The place of the token that is sampled next. */
export interface DrawPlace {
  /** The position of the latest token; the sampled token belongs behind it. */
  readonly position: number
  /** All tokens up to there, prompt included. Only valid during the call. */
  readonly tokens: readonly TokenId[]
}

/**
 * Changes the logits of each draw of one request, before penalties, top-k and the like, and temperature. Its changes must
 * depend only on its options, the seed and the place: a request that is preempted or continued by another engine gets a
 * new processor in the middle. It is called for every token, so it should be quick: a vocabulary can have 150,000 entries.
 */
export interface LogitProcessor {
  /**
   * Changes the logits of one draw.
   * @param logits - one for each token of the vocabulary, to be changed in place; −Infinity or NaN forbids a token. At
   *   least one token must remain allowed.
   */
  apply(logits: Float32Array, place: DrawPlace): void
}

/** A draft of the next tokens of a sequence. */
export interface Proposal {
  /** The next tokens, in order; an invalid token ends the draft. Empty: no draft. */
  readonly tokens: readonly TokenId[]
  /**
   * The kind of draft, 0 to 15; default 0. The engine learns the acceptance of each kind, so drafts that are about equally
   * likely should have the same kind.
   */
  readonly kind?: number
}

/**
 * Drafts the next tokens of one sequence, which the engine verifies in one step if that is likely to be faster. A wrong
 * draft costs time and never changes the output.
 */
export interface Drafter {
  /**
   * Drafts the tokens after `tokens`. Called for every token of the answer, so it should return within microseconds. The
   * draft must depend only on the tokens: a request that is continued by another engine gets a new drafter in the middle.
   * @param tokens - the prompt and the answer so far: the tokens of the previous call, with more appended. Only valid
   *   during the call.
   * @param most - the most tokens of the draft, at least 1; further ones are ignored
   */
  propose(tokens: readonly TokenId[], most: number): Proposal
}

/** What a proposer knows about a sequence besides its tokens. */
export interface DraftedSequence {
  /** The text that its constraint forces, see `Sampler.forced`; left out without a constraint. */
  readonly forced?: Drafter['propose']
}

/** Makes the drafters of an engine's sequences. */
export interface Proposer {
  /** A drafter for one sequence; undefined: no drafts for it. */
  begin(sequence: DraftedSequence): Drafter | undefined
}
