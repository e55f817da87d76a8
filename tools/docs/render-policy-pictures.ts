import { readFileSync } from 'node:fs'
import { rowPicture } from '@cllm/bench'

/** The rows of a table of the scheduling page: their first cells, and the cells by the column's title. */
function tableWith(
  file: URL,
  first: string,
  column: string,
): readonly (readonly [string, string])[] {
  const tables = readFileSync(file, 'utf8').split(/\n\n/)
  for (const table of tables) {
    const [head = [], , ...rows] = table.split('\n').map((line) => line.slice(2, -2).split(' | '))
    const at = head.indexOf(column)
    if (head[0] !== first || at < 0) continue
    return rows.map((cells) => [(cells[0] ?? '').replaceAll('`', ''), cells[at] ?? ''])
  }
  throw new Error(`${file.pathname}: expected a table with "${first}" and "${column}"`)
}

const picture = (caption: string, title: string, rows: readonly (readonly [string, number])[]) =>
  rowPicture(
    { caption, x: { title }, kinds: [], rowHeight: 22 },
    rows.map(([name, to]) => ({ name, pieces: [{ from: 0, to, kind: 0 }] })),
  )

/** How long a long prompt stalls the streams beside it, with each batching. */
export const renderPausesPicture = (measured: URL): string =>
  picture(
    'The longest pause of four streams while a 1,200-word prompt arrives, by batching',
    'longest pause, seconds',
    tableWith(measured, 'batching', 'largest ITL ms').map(([name, text]) => [
      name,
      Number(text.replaceAll(',', '')) / 1000,
    ]),
  )

/** Which share of an overload meets its limits, with each order of the default batching. */
export const renderGoodputPicture = (measured: URL): string =>
  picture(
    'The share of requests that meet their limits at 1.5 times the load that can be served, by policy',
    'requests within their limits, %',
    tableWith(measured, 'policy', 'goodput')
      .filter(([name]) => name.startsWith('adaptive+') || name === 'continuous+fcfs')
      .map(([name, text]): [string, number] => [name, Number.parseFloat(text)])
      .toSorted(([, a], [, b]) => b - a),
  )
