import { defaultRecorderOptions } from '@cllm/core'
import { option } from './option.js'
import { resolvePath } from './paths.js'
import { decimal, integer, orNone, text } from './value-format.js'

const emptyToNone = (value: unknown) => (value === '' ? null : value)

/** The options of tracing: the branch `telemetry` of the schema. */
export const telemetryOptions = {
  otlp_endpoint: option<string | null>({
    doc:
      'Base URL of a collector that takes spans over HTTP (OTLP), such as `http://127.0.0.1:4318`; ' +
      'by default none are made.',
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
      'How far back the flight recorder goes: what came and what the steps were, without any text, ' +
      'for `GET /admin/recorder` and after a crash. 0 is none.',
    default: defaultRecorderOptions.windowMs / 60_000,
    format: decimal({ minimum: 0, unit: 'minutes' }),
    arg: 'recorder-minutes',
    placeholder: 'MINUTES',
  }),
  size: option({
    doc: 'The memory that it may take, about, in bytes; what is older goes earlier then.',
    default: defaultRecorderOptions.maxBytes,
    format: integer({ minimum: 65_536 }),
    arg: 'recorder-size',
    placeholder: 'BYTES',
  }),
  folder: option<string | null>({
    doc:
      'Folder for what it has when the engine crashes, the last eight times; by default one in the ' +
      "user's state folder.",
    default: null,
    format: orNone(text('a folder')),
    arg: 'recorder-folder',
    placeholder: 'FOLDER',
    normalize: emptyToNone,
    resolve: resolvePath,
  }),
}
