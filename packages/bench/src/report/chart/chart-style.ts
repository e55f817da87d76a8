import { readFileSync } from 'node:fs'

/** A style sheet of the package, in `data/NAME.css`. */
export const readStyle = (name: string): string =>
  readFileSync(new URL(`../../../data/${name}.css`, import.meta.url), 'utf8')

/** The style of charts: the colours of the web page (`packages/web/src/page/style.css`), light or dark. */
export const chartStyle = (): string => readStyle('charts')
