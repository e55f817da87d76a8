import type { JSX } from 'preact'

/** The heads of a table's columns, for its head row. */
export function ColumnHeads({
  names,
  numbers = false,
}: {
  readonly names: readonly string[]
  /** Whether the columns hold numbers. */
  readonly numbers?: boolean
}): JSX.Element {
  return (
    <>
      {names.map((name, index) => (
        <th class={numbers ? 'number' : undefined} scope="col" key={index}>
          {name}
        </th>
      ))}
    </>
  )
}
