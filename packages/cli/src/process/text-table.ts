import Table from 'cli-table3'

/** A table of text under these headings, one line a row, without colours: it may go to a file or a pipe. */
export function textTable(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  const table = new Table({ head: [...head], style: { head: [], border: [], compact: true } })
  table.push(...rows.map((row) => [...row]))
  return `${table.toString()}\n`
}
