import { folder, option } from './option.js'
import { defaultRecorderOptions } from '@cllm/host'
import { emptyToNone, decimal, integer, orNone, text } from './value-format.js'

/** The options of tracing: the branch `telemetry` of the schema. */
export const telemetryOptions = {
  otlp_endpoint: option(orNone(text('a URL')), null, {
    env: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    normalize: emptyToNone,
  }).describe(
    'Base URL of an OTLP collector for traces over HTTP, such as ' +
      '`http://127.0.0.1:4318`. Unset: tracing is off.',
  ),
}

/** The options of the flight recorder: the branch `recorder` of the schema. */
export const recorderOptions = {
  minutes: option(decimal(0, Infinity, 'minutes'), defaultRecorderOptions.windowMs / 60_000, {
    flag: 'recorder-minutes',
  }).describe(
    'Minutes of requests and steps, without any text, in the flight recorder, for `GET ' +
      '/admin/recorder` and crash files. 0 turns it off.',
  ),
  size: option(integer(65_536, Infinity, 'BYTES'), defaultRecorderOptions.maxBytes, {
    flag: 'recorder-size',
  }).describe(
    'Approximate memory limit of the recorder, in bytes; the oldest entries are dropped ' +
      'first.',
  ),
  folder: folder({ flag: 'recorder-folder' }).describe(
    'Folder for the recordings of the last eight engine crashes; by default one in the ' +
      "user's state folder.",
  ),
}
