/** One kind of failure. */
export interface ErrorEntry {
  /** The HTTP status that transports answer with. */
  readonly status: number
  /** What it means and what a client or operator does about it. */
  readonly description: string
}

const entry = (status: number, description: string): ErrorEntry => ({ status, description })

/** Every failure that cLLM reports, by its stable code. `docs/errors.md` is made from this table. */
export const errorTable = {
  // What a client sends
  invalid_json: entry(400, 'The body is not valid JSON.'),
  invalid_request: entry(400, 'A field is missing, has a wrong type or is out of its range.'),
  invalid_token: entry(400, "A token id is outside the model's vocabulary."),
  prompt_too_long: entry(400, 'The prompt has more tokens than a slot holds.'),
  unsupported: entry(400, 'The request asks for something that this backend cannot do.'),
  invalid_constraint: entry(
    400,
    'A grammar or JSON schema cannot be honoured; the message names what and where.',
  ),
  duplicate_request: entry(400, 'A request with this id is under way.'),
  invalid_http: entry(400, 'What came is not HTTP.'),
  head_too_large: entry(431, 'The head of the request is larger than the server accepts.'),
  request_timeout: entry(408, 'The request took too long to come.'),
  unauthenticated: entry(401, 'The request has no API key, or one that is not valid here.'),
  forbidden: entry(403, 'The API key does not allow this; it needs one of an admin.'),
  rate_limited: entry(429, 'The API key has used up its requests or tokens for this minute.'),
  rejected: entry(503, 'The scheduling policy refused the request, with its reason.'),
  cancelled: entry(499, 'The client left or cancelled the request.'),
  timeout: entry(408, 'The request did not end within its time limit.'),
  not_found: entry(404, 'There is no such path.'),
  model_not_found: entry(404, 'There is no such model here.'),
  request_not_found: entry(404, 'No request of this id is under way or ended lately.'),
  method_not_allowed: entry(405, 'The path does not take this method.'),
  body_too_large: entry(413, 'The body is larger than the server accepts.'),
  unsupported_media_type: entry(415, 'The body is not sent as application/json.'),
  queue_full: entry(429, 'As many requests or tokens wait as may; try again later.'),
  wait_too_long: entry(429, 'It would wait longer for its turn than any may; try again later.'),
  not_implemented: entry(501, 'The model that is served cannot do this.'),
  // What an operator configures
  invalid_configuration: entry(500, 'Settings are unknown, have a wrong type or contradict.'),
  invalid_dataset: entry(
    500,
    'A file of requests to measure with cannot be read; it names the line.',
  ),
  target_unavailable: entry(502, 'The server to measure cannot be reached, started or understood.'),
  invalid_policy: entry(
    400,
    'There is no scheduling policy of this name, or its options are wrong.',
  ),
  plugin_not_found: entry(500, 'A plugin cannot be found or loaded.'),
  plugin_invalid: entry(500, 'A module is not a plugin of a version that works here.'),
  plugin_conflict: entry(500, 'Two plugins register the same name.'),
  model_unavailable: entry(500, 'A model cannot be found, fetched or verified.'),
  model_invalid: entry(500, 'A file is not a model that can be loaded.'),
  insufficient_memory: entry(500, 'The weights and slots do not fit into memory.'),
  address_in_use: entry(500, 'The address to listen on is taken or not allowed.'),
  // What goes wrong inside
  policy_failed: entry(500, 'The scheduling policy threw or made a plan that is not possible.'),
  backend_failed: entry(500, 'The backend failed on this request.'),
  engine_unavailable: entry(503, 'The engine is starting or has stopped.'),
  engine_crashed: entry(
    500,
    'The engine died three times while it computed this request, at last alone: it is not tried again.',
  ),
  shutting_down: entry(503, 'The server is shutting down.'),
  internal: entry(500, 'A defect of cLLM.'),
} as const satisfies Record<string, ErrorEntry>

/** The stable code of a failure. */
export type ErrorCode = keyof typeof errorTable
