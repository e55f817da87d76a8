import type { EngineClient, EngineDirectory } from '@cllm/core'
import { z } from 'zod'
import type { KoaContext } from '../koa-context.js'
import { parseFields } from '../parse-fields.js'

/** The query of routes that are about one engine. */
export const engineQuery = z.object({ model: z.string('the name of one model').optional() })

/** The default engine, or that of the query's `model`. */
export const engineOf = (ctx: KoaContext, directory: EngineDirectory): EngineClient =>
  directory.open(parseFields(engineQuery, ctx.query).model)
