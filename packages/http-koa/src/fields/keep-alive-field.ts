import { z } from 'zod'
import { parseKeepAlive } from './keep-alive.js'

const expected = 'a number of seconds or a duration such as 5m'

/** The field `keep_alive`: how long a model stays loaded after its last use, as milliseconds. */
export const keepAliveField = z
  .custom<string | number>((value) => parseKeepAlive(value) !== undefined, expected)
  .meta({ anyOf: [{ type: 'string' }, { type: 'number' }] })
  .transform((value) => parseKeepAlive(value))
  .optional()
