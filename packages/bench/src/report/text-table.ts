import Table from 'cli-table3'

/** Characters of a line, at most, where a table has more than two columns. */
const widest = 120

/**
 * A table for the terminal; all columns but the first are aligned right. One that is too wide for a line
 * becomes several, below each other, each with the first column.
 */
export function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const width = (column: number) =>
    [head, ...rows].reduce((most, row) => Math.max(most, (row[column] ?? '').length), 0) + 3
  const parts: number[][] = []
  let room = 0
  for (let column = 1; column < head.length; column++) {
    if (parts.length === 0 || room < width(column)) {
      parts.push([0])
      room = widest - 1 - width(0)
    }
    parts.at(-1)?.push(column)
    room -= width(column)
  }
  if (parts.length === 0) parts.push([0])
  const pick = (row: readonly string[], part: readonly number[]) => part.map((at) => row[at] ?? '')
  return parts
    .map((part) =>
      oneTable(
        pick(head, part),
        rows.map((row) => pick(row, part)),
      ),
    )
    .join('\n')
}

function oneTable(head: string[], rows: string[][]): string {
  const table = new Table({
    head,
    colAligns: head.map((_, index) => (index === 0 ? 'left' : 'right')),
    chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' },
    style: { head: [], border: [] },
  })
  table.push(...rows)
  return table.toString()
}
