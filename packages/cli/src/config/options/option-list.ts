import { placeOptions } from './option.js'
import { schema } from './schema.js'

export type { PlacedOption } from './option.js'

/** All options of the schema with their paths, in its order. */
export const options = placeOptions(schema)

/** The section of an option, such as `api.defaults`. */
export const sectionOf = (path: string): string =>
  path.includes('.') ? path.slice(0, path.lastIndexOf('.')) : path
