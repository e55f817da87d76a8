/** One kind of failure. */
export interface ErrorEntry {
  /** The HTTP status that transports answer with. */
  readonly status: number
  /** What it means, and the remedy for a client or operator. */
  readonly description: string
}

const entry = (status: number, description: string): ErrorEntry => ({ status, description })

/** Every failure that cLLM reports, by its stable code. `docs/errors.md` is generated from this table. */
export const errorTable = {
  // What a client sends
  invalid_json: entry(400, 'The body is not valid JSON.'),
  invalid_request: entry(400, 'A field is missing, has the wrong type or is out of range.'),
  invalid_token: entry(400, "A token id is outside the model's vocabulary."),
  prompt_too_long: entry(400, 'The prompt has more tokens than a slot holds.'),
  unsupported: entry(400, 'The request asks for something that this backend cannot do.'),
  invalid_constraint: entry(
    400,
    'A grammar or JSON schema cannot be honoured; the message names what and where.',
  ),
  invalid_media: entry(400, 'An image cannot be read, or is larger than the server accepts.'),
  duplicate_request: entry(400, 'A request with this id is already in flight.'),
  invalid_http: entry(400, 'The data received is not valid HTTP.'),
  head_too_large: entry(431, 'The request headers are larger than the server accepts.'),
  request_timeout: entry(408, 'The request took too long to arrive.'),
  unauthenticated: entry(401, 'The API key is missing or invalid.'),
  forbidden: entry(403, 'The role of the API key does not allow this.'),
  origin_not_allowed: entry(
    403,
    'The request came from a web page of an origin that `--cors-origins` does not allow, or over the ' +
      'loopback interface under a public name that may have been rebound to this machine.',
  ),
  rate_limited: entry(
    429,
    'The API key has used up its requests or tokens of this minute, or its tokens of this month.',
  ),
  rejected: entry(503, 'The scheduling policy refused the request, with its reason.'),
  cancelled: entry(499, 'The client left or cancelled the request.'),
  timeout: entry(408, 'The request did not end within its time limit.'),
  not_found: entry(404, 'There is no such path.'),
  model_not_found: entry(404, 'This server has no such model.'),
  request_not_found: entry(404, 'No request with this id is in flight or ended recently.'),
  method_not_allowed: entry(405, 'The path does not take this method.'),
  body_too_large: entry(413, 'The body is larger than the server accepts.'),
  unsupported_media_type: entry(
    415,
    'The body is compressed in a way that the server cannot unpack.',
  ),
  queue_full: entry(429, 'The queue is full; retry later.'),
  wait_too_long: entry(429, 'The predicted queue time exceeds the limit; retry later.'),
  not_implemented: entry(501, 'The served model does not support this.'),
  // What an operator configures
  invalid_configuration: entry(
    500,
    'A setting is unknown, has the wrong type or contradicts another one.',
  ),
  invalid_dataset: entry(500, 'A benchmark dataset cannot be read; the message names the line.'),
  target_unavailable: entry(
    502,
    'The server under test cannot be reached or started, or its answers cannot be parsed.',
  ),
  invalid_policy: entry(
    400,
    'There is no scheduling policy of this name, or its options are wrong.',
  ),
  plugin_not_found: entry(500, 'A plugin cannot be found or loaded.'),
  plugin_invalid: entry(500, 'A module is not a plugin, or has an incompatible version.'),
  plugin_conflict: entry(500, 'Two plugins register the same name.'),
  model_unavailable: entry(500, 'A model cannot be found, fetched or verified.'),
  model_invalid: entry(500, 'A file is not a loadable model.'),
  insufficient_memory: entry(500, 'The weights and slots do not fit into memory.'),
  native_build_failed: entry(
    500,
    'The native library cannot be built or fetched; the message says what is missing.',
  ),
  storage_failed: entry(500, 'A folder of the server is gone or full; the message says which.'),
  address_in_use: entry(500, 'The listen address is in use or not permitted.'),
  // What goes wrong inside
  policy_failed: entry(500, 'The scheduling policy threw or made an invalid plan.'),
  backend_failed: entry(500, 'The backend failed on this request.'),
  engine_unavailable: entry(503, 'The engine is starting or has stopped.'),
  engine_crashed: entry(
    500,
    'The engine crashed repeatedly on this request, the last time running it alone; it is not retried.',
  ),
  cluster_unavailable: entry(
    503,
    'The Redis or Valkey server of the cluster cannot be reached or refuses something, or all workers are of another version.',
  ),
  model_loading: entry(503, 'The server is starting: its models are being loaded.'),
  shutting_down: entry(503, 'The server is shutting down.'),
  internal: entry(500, 'An internal error: a bug in cLLM.'),
} as const satisfies Record<string, ErrorEntry>

/** The stable code of a failure. */
export type ErrorCode = keyof typeof errorTable
