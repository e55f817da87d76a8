import { folderOption, option } from './option.js'
import { defaultRecorderOptions } from '@cllm/host'
import { emptyToNone, decimal, integer, orNone, text } from './value-format.js'

/** The options of tracing: the branch `telemetry` of the schema. */
export const telemetryOptions = {
  otlp_endpoint: option<string | null>({
    doc:
      'Base URL of an OTLP collector for traces over HTTP, such as ' +
      '`http://127.0.0.1:4318`. Unset: tracing is off.',
    default: null,
    format: orNone(text('a URL')),
    arg: 'otlp-endpoint',
    env: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    placeholder: 'URL',
    normalize: emptyToNone,
  }),
}

/** The options of the flight recorder: the branch `recorder` of the schema. */
export const recorderOptions = {
  minutes: option({
    doc:
      'Minutes of requests and steps, without any text, in the flight recorder, for `GET ' +
      '/admin/recorder` and crash files. 0 turns it off.',
    default: defaultRecorderOptions.windowMs / 60_000,
    format: decimal({ minimum: 0, unit: 'minutes' }),
    arg: 'recorder-minutes',
    placeholder: 'MINUTES',
  }),
  size: option({
    doc:
      'Approximate memory limit of the recorder, in bytes; the oldest entries are dropped ' +
      'first.',
    default: defaultRecorderOptions.maxBytes,
    format: integer({ minimum: 65_536 }),
    arg: 'recorder-size',
    placeholder: 'BYTES',
  }),
  folder: folderOption({
    doc:
      'Folder for the recordings of the last eight engine crashes; by default one in the ' +
      "user's state folder.",
    arg: 'recorder-folder',
  }),
}
