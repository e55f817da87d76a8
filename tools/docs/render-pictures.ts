import { readFileSync } from 'node:fs'
import { rowPicture } from '@cllm/bench'

/** The rows of a page's table: their first cells, and those of a column. */
function tableWith(
  file: URL,
  first: string,
  column: string,
): readonly (readonly [string, string])[] {
  const tables = readFileSync(file, 'utf8').split(/\n\n/)
  for (const table of tables) {
    const lines = table.split('\n').filter((line) => line.startsWith('|'))
    const [head = [], , ...rows] = lines.map((line) => line.slice(2, -2).split(' | '))
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

/** Each figure of cLLM beside llama-server's, as shares of the larger of the two. */
export const renderFiguresPicture = (page: URL): string => {
  const [ours, theirs, better] = ['cLLM', 'llama-server', 'better is'].map((column) =>
    tableWith(page, 'figure', column),
  )
  const rows = (ours ?? []).flatMap(([figure, text], index) => {
    const texts = [text, theirs?.[index]?.[1] ?? '']
    const values = texts.map((each) => Number(each.replaceAll(',', '')))
    const bar = (name: string, side: number, kind: number) => {
      const to = (values[side] ?? 0) / Math.max(...values)
      return { name: `${name} ${texts[side]}`, pieces: [{ from: 0, to, kind }] }
    }
    const heading = { name: `${figure}: ${better?.[index]?.[1]} is better`, pieces: [] }
    return [heading, bar('cLLM', 0, 0), bar('llama-server', 1, 4)]
  })
  const x = { title: 'share of the larger of the two', isShare: true }
  return rowPicture({ caption: 'cLLM beside llama-server', x, kinds: [], rowHeight: 18 }, rows)
}
