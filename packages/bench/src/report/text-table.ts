import Table from 'cli-table3'

/** A table for the terminal; all columns but the first are aligned right. */
export function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const table = new Table({
    head: [...head],
    colAligns: head.map((_, index) => (index === 0 ? 'left' : 'right')),
    chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' },
    style: { head: [], border: [] },
  })
  table.push(...rows.map((row) => [...row]))
  return table.toString()
}
