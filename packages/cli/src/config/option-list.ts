import { placeOptions } from './option.js'
import { schema } from './schema.js'

export type { PlacedOption } from './option.js'

/** All options of the schema with their paths, in its order. */
export const options = placeOptions(schema)
