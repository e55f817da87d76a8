import type { JSX } from 'preact'

interface TextFieldProps {
  readonly label: string
  readonly value: string
  readonly onText: (text: string) => void
  readonly autocomplete?: 'off'
  readonly inputMode?: 'numeric'
  readonly placeholder?: string
  readonly required?: boolean
}

/** A labelled input that tells its text at each change. */
export function TextField({ label, onText, ...input }: TextFieldProps): JSX.Element {
  return (
    <label>
      {label}
      <input {...input} onInput={(event) => onText(event.currentTarget.value)} />
    </label>
  )
}
