import { readFileSync } from 'node:fs'
import { escapeHtml } from '../chart/frame.js'

/** A cell of a table: its text and, in smaller letters below, a note on it. */
export interface Cell {
  readonly text: string
  readonly note?: string
  /** How the note reads: a difference in the good or bad direction, or none. */
  readonly tone?: 'better' | 'worse' | 'plain'
}

/** A table; the first cell of a row names it. */
export function htmlTable(
  head: readonly string[],
  rows: readonly (readonly (string | Cell)[])[],
): string {
  const titles = head.map((title) => `<th scope="col">${escapeHtml(title)}</th>`).join('')
  const body = rows.map((row) => `<tr>${row.map(cell).join('')}</tr>`).join('\n')
  return `<table><thead><tr>${titles}</tr></thead><tbody>${body}</tbody></table>`
}

function cell(content: string | Cell, column: number): string {
  const whole: Cell = typeof content === 'string' ? { text: content } : content
  const { text, note, tone = 'plain' } = whole
  const small = note === undefined ? '' : `<small class="${tone}">${escapeHtml(note)}</small>`
  const [tag, scope] = column === 0 ? ['th', ' scope="row"'] : ['td', '']
  return `<${tag}${scope}>${escapeHtml(text)}${small}</${tag}>`
}

/**
 * A self-contained page without scripts or external resources, for screens, phones and paper; light or
 * dark as the reader's system is.
 */
export function htmlPage(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<style>
${chartStyle()}${readStyle('report')}</style>
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`
}

/** A style sheet of the package, in `data/NAME.css`. */
const readStyle = (name: string): string =>
  readFileSync(new URL(`../../../data/${name}.css`, import.meta.url), 'utf8')

/** The style of charts: the colours of the web page (`packages/web/src/page/style.css`), light or dark. */
export const chartStyle = (): string => readStyle('charts')
