import { CllmError } from '@cllm/core'
import type { Answer, Call } from '../../routes/call.js'
import { engineInMemory, type ModelQuery, neverLoaded } from '../../engines/model-queries.js'

/**
 * `GET /admin/recorder`: the flight recorder's last minutes, without any text. For a model that was
 * unloaded, the state when it was unloaded.
 */
export async function getRecorder(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { engines: directory, query } = call
  const { model } = query
  const engine = engineInMemory(directory, model)
  const { recording: kept, info } = directory.status(model)
  if (engine === undefined && kept === undefined && info === undefined) {
    throw neverLoaded(directory, model)
  }
  const recording = engine === undefined ? kept : await engine.recording?.()
  if (recording === undefined) {
    throw new CllmError('unsupported', 'The engine of this server has no flight recorder')
  }
  return recording
}
