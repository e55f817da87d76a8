import type { JSX } from 'preact'
import { type LimitName, withoutLimit } from './key-terms.js'

/** Takes a limit; empty: that of the server, or none. */
export function LimitField({
  limit,
  value,
  label,
  onText,
}: {
  readonly limit: LimitName
  readonly value: string
  /** Where no label stands around it. */
  readonly label?: string
  readonly onText: (text: string) => void
}): JSX.Element {
  return (
    <input
      type="number"
      min="1"
      placeholder={withoutLimit(limit)}
      value={value}
      {...(label === undefined ? {} : { 'aria-label': label })}
      onInput={(event) => onText(event.currentTarget.value)}
    />
  )
}
