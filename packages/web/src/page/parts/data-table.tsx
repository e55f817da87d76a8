import type { ComponentChild } from 'preact'

/** A column of a table: its head, and its cell for each row. */
export interface Column<Row> {
  readonly name: string
  /** Label of the cell on a phone, where rows are cards. Default: `name`. */
  readonly label?: string
  readonly kind?: 'number' | 'head'
  readonly cell: (row: Row) => ComponentChild
}

/** A column of numbers. */
export const numbers = <Row,>(name: string, cell: Column<Row>['cell']): Column<Row> => {
  return { name, kind: 'number', cell }
}

interface DataTableProps<Row> {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string | number
  readonly stacks?: boolean
}

/** A table that can be scrolled sideways. On a phone each row is a card if `stacks`. */
export function DataTable<Row>(props: DataTableProps<Row>) {
  const { label, columns, rows, keyOf, stacks = true } = props
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class={stacks ? 'stacks' : ''}>
        <thead>
          <tr>{columns.map(headOf)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>{columns.map((column) => cellOf(column, row))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function headOf<Row>({ name, kind }: Column<Row>) {
  if (name === '') return <td />
  return (
    <th class={kind === 'number' ? kind : undefined} scope="col">
      {name}
    </th>
  )
}

function cellOf<Row>({ name, label = name || undefined, kind, cell }: Column<Row>, row: Row) {
  if (kind === 'head') return <th scope="row">{cell(row)}</th>
  return (
    <td class={kind} data-label={label}>
      {cell(row)}
    </td>
  )
}
