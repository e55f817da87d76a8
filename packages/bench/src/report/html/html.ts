import { chartStyle } from '../chart/chart-style.js'

/** Escapes text for HTML. */
export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

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
  const {
    text,
    note,
    tone = 'plain',
  } = typeof content === 'string' ? ({ text: content } as Cell) : content
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
${style}</style>
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`
}

/** The style of reports: the colours and shapes of the web page. */
const style = `${chartStyle}* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--ground); }
main { max-width: 74rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
a { color: var(--accent); }
.about { color: var(--dim); overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.3rem 0.5rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; font-weight: normal; }
thead th { color: var(--dim); vertical-align: bottom; }
tbody th { font-weight: 600; }
th:first-child { text-align: left; min-width: 8.5rem; overflow-wrap: break-word; }
small { display: block; white-space: pre; color: var(--dim); font-size: 0.8rem; }
small.better { color: var(--good); } small.worse { color: var(--bad); }
.warning { border-left: 4px solid var(--s1); padding-left: 0.75rem; margin: 0.4rem 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(34rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; min-width: 0; padding: 0.8rem; border: 1px solid var(--line); border-radius: 0.6rem; break-inside: avoid; }
figure.wide { grid-column: 1 / -1; }
figcaption { font-weight: 600; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.1rem 1rem; margin: 0.2rem 0; padding: 0; font-size: 0.85rem; color: var(--dim); }
.legend svg { width: 18px; height: 8px; margin-right: 0.4rem; }
.plot svg { display: block; width: 100%; height: auto; }
.wide .plot { overflow-x: auto; } .wide .plot svg { min-width: 40rem; }
@media print { main { max-width: none; } body { font-size: 10pt; } h2 { break-after: avoid; } }
`
