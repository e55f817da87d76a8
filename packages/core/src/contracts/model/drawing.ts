import type { TokenId, Tokenizer } from './tokenizer.js'

/** A JSON schema (draft 2020-12): an object of keywords, or true for anything and false for nothing. */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown }

/** What stands around JSON, such as the marks of a tool call. */
export interface JsonSurroundings {
  /** A regular expression of what stands before the JSON; default: nothing. */
  readonly before?: string
  /** What stands behind the JSON; default: nothing. */
  readonly closing?: string
  /** What stands before further JSON of the same kind; default: there is one only. */
  readonly next?: string
}

/** JSON that is valid by a schema, with what stands around it. */
export interface SurroundedJson extends JsonSurroundings {
  readonly schema: JsonSchema
}

/** JSON of one kind, or of other kinds in its place, such as an answer or a call of a tool. */
export interface EitherJson extends SurroundedJson {
  /** Default: nothing else. */
  readonly or?: EitherJson
}

/**
 * What a request's output must look like. Only tokens that keep to it are drawn, and the model may
 * stop only where it is fulfilled: output that ends with `stop` (and not at a stop text or with
 * `length`) fulfils it. What a backend cannot honour throws `invalid_constraint` before any work,
 * never is it left out.
 */
export type OutputConstraint =
  /** A grammar in llama.cpp's GBNF notation. */
  | {
      readonly type: 'gbnf'
      readonly grammar: string
      /** The rule that the output is; default `root`. */
      readonly root?: string
    }
  /** Text that a regular expression matches as a whole. */
  | { readonly type: 'regex'; readonly pattern: string }
  /** A JSON object. */
  | { readonly type: 'json' }
  /** JSON that is valid by a schema. */
  | ({ readonly type: 'json-schema' } & EitherJson)
  /**
   * Free text, and behind it JSON that is valid by a schema, such as calls of tools. The JSON begins
   * where `trigger` matches what has been written; without a match all text is free.
   */
  | ({
      readonly type: 'triggered-json'
      /** A regular expression; the JSON begins at the end of its first match. */
      readonly trigger: string
    } & EitherJson)

/** What a sampler of a plug-in is made with, once for each request. */
export interface SamplerContext {
  /** The model's vocabulary. Ids are 0 to `vocabularySize − 1`, as are the indexes of logits. */
  readonly tokenizer: Pick<
    Tokenizer,
    'vocabularySize' | 'encode' | 'decode' | 'bytesOf' | 'isEndOfGeneration'
  >
  /** The request's seed, 0 to 4294967295, for samplers that need random numbers. */
  readonly seed: number
}

/** Which token is about to be drawn. */
export interface DrawPlace {
  /** The position of the latest token; the one that is drawn belongs behind it. */
  readonly position: number
  /** All tokens up to there, prompt included. Only valid during the call. */
  readonly tokens: readonly TokenId[]
}

/**
 * Changes the logits of each draw of one request, before penalties, cuts and temperature. What it does
 * must follow from its options, the seed and the place alone: a request that is preempted or continued
 * by another engine gets a new one in the middle. It is called for every token, so it should be quick:
 * a vocabulary can have 150,000 entries.
 */
export interface LogitProcessor {
  /**
   * Changes the logits of one draw.
   * @param logits - one for each token of the vocabulary, to be changed in place; −Infinity forbids a
   *   token, and NaN does too. At least one must be left.
   */
  apply(logits: Float32Array, place: DrawPlace): void
}

/** A guess of what comes next in a sequence. */
export interface Proposal {
  /** The next tokens, in their order; those after one that is no token are left out. None: no guess. */
  readonly tokens: readonly TokenId[]
  /**
   * What kind of guess it is, 0 to 15; default 0. The engine learns for each kind how often its tokens
   * are right, so guesses that are about equally likely should have the same one.
   */
  readonly kind?: number
}

/**
 * Guesses the next tokens of one sequence, which the engine verifies in one step when that is likely
 * to be faster. A wrong guess costs time and never changes the output.
 */
export interface Drafter {
  /**
   * Guesses what comes after `tokens`. Called for every token of the answer, so it should return within
   * microseconds. It must follow from the tokens alone: a request that is continued by another engine
   * gets a new drafter in the middle.
   * @param tokens - the prompt and the answer so far: those of the last call, and more behind them.
   *   Only valid during the call.
   * @param most - more tokens than this are left out; 1 or more
   */
  propose(tokens: readonly TokenId[], most: number): Proposal
}

/** What a proposer may know of a sequence beside its tokens. */
export interface DraftedSequence {
  /** What its constraint leaves no choice about, as its sampler's `forced` has it; left out without one. */
  readonly forced?: Drafter['propose']
}

/** Makes the drafters of an engine's sequences. */
export interface Proposer {
  /** A drafter for one sequence; undefined: there is nothing to guess by. */
  begin(sequence: DraftedSequence): Drafter | undefined
}
