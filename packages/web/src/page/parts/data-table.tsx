import type { ComponentChild } from 'preact'

/** A column of a table: its head, and what it shows of each row. */
export interface Column<Row> {
  readonly name: ComponentChild
  /** What stands before the cell on a phone, where rows are cards. Default: `name`, if it is a text. */
  readonly label?: string
  readonly kind?: 'number' | 'head'
  readonly cell: (row: Row) => ComponentChild
}

interface DataTableProps<Row> {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string | number
  readonly stacks?: boolean
  readonly class?: string
}

/** Rows of the same columns, which can be scrolled sideways. On a phone each row is a card if `stacks`. */
export function DataTable<Row>({
  label,
  columns,
  rows,
  keyOf,
  stacks = true,
  class: name = '',
}: DataTableProps<Row>) {
  return (
    <div class={`scroll ${name}`} tabIndex={0} role="region" aria-label={label}>
      <table class={stacks ? 'stacks' : ''}>
        <thead>
          <tr>{columns.map(headOf)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>{columns.map((column, index) => cellOf(column, row, index))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function headOf<Row>({ name, kind }: Column<Row>, index: number) {
  if (name === '') return <td key={index} />
  return (
    <th class={kind === 'number' ? kind : undefined} scope="col" key={index}>
      {name}
    </th>
  )
}

function cellOf<Row>(column: Column<Row>, row: Row, index: number) {
  const {
    name,
    label = typeof name === 'string' && name !== '' ? name : undefined,
    kind,
    cell,
  } = column
  if (kind === 'head') {
    return (
      <th scope="row" key={index}>
        {cell(row)}
      </th>
    )
  }
  return (
    <td class={kind} data-label={label} key={index}>
      {cell(row)}
    </td>
  )
}
