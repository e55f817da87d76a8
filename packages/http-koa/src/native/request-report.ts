import { CllmError, type EngineDirectory, type RequestReport } from '@cllm/core'
import type { KoaContext } from '../koa-context.js'
import { loadedModels } from '../models/look-at-models.js'
import type { NativeContext } from './native-context.js'
import { describeTimings } from './timings.js'

/** `GET /requests/{id}`: what happened to a request, of whichever engine it is. */
export async function requestReport(ctx: KoaContext, native: NativeContext): Promise<void> {
  const { id = '' } = ctx.params as { readonly id?: string }
  const report = await find(native.directory, id)
  const { usage, timings, timeline, forecast, queuePosition, ...rest } = report
  ctx.body = {
    success: true,
    data: {
      ...rest,
      ...(queuePosition === undefined ? {} : { queue_position: queuePosition }),
      ...(forecast === undefined ? {} : { forecast: toSnakeCase(forecast) }),
      timings: describeTimings(timings, usage),
      timeline: timeline.map(toSnakeCase),
    },
  }
}

async function find(directory: EngineDirectory, id: string): Promise<RequestReport> {
  const message = `There is no request "${id}" under way or among the last that ended`
  let failure: unknown = new CllmError('request_not_found', message, { details: { id } })
  for (const model of loadedModels(directory)) {
    try {
      return await directory.open(model, { peek: true }).explain(id)
    } catch (error) {
      if (!CllmError.isInstance(error) || error.code !== 'request_not_found') throw error
      failure = error
    }
  }
  throw failure
}

function toSnakeCase(entry: object): Record<string, unknown> {
  const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  return Object.fromEntries(Object.entries(entry).map(([name, value]) => [snake(name), value]))
}
