import { recordingJsonSchema } from '@cllm/bench'

/** The text of `docs/recording.schema.json`. */
export const renderRecordingSchema = (): string =>
  `${JSON.stringify(recordingJsonSchema(), undefined, 2)}\n`
