import { readFileSync } from 'node:fs'

/** A table of the package, in `data/NAME.json`. */
export const readData = <T>(name: string): T =>
  JSON.parse(readFileSync(new URL(`../data/${name}.json`, import.meta.url), 'utf8')) as T
