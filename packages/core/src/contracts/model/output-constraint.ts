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
