import { readFileSync } from 'node:fs'

/** A table of the package, in `data/NAME.json`. */
export const readData = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../data/${name}.json`, import.meta.url), 'utf8'))
