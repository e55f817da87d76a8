import type { ComponentChildren, JSX } from 'preact'
import { useState } from 'preact/hooks'

/** A form that stays on the page when it is sent. */
export function Form({
  onSend,
  ...others
}: {
  readonly onSend: () => void
  readonly class?: string
  readonly children: ComponentChildren
  readonly 'aria-label'?: string
}): JSX.Element {
  return (
    <form
      {...others}
      onSubmit={(event) => {
        event.preventDefault()
        onSend()
      }}
    />
  )
}

interface InputProps {
  readonly value: string | number
  readonly onText: (text: string) => void
  readonly type?: 'number' | 'date' | 'password'
  readonly min?: string | number
  readonly max?: string
  readonly step?: string | number
  readonly list?: string
  readonly placeholder?: string
  readonly autocomplete?: 'off'
  readonly inputMode?: 'numeric'
  readonly required?: boolean
  readonly spellcheck?: boolean
  readonly 'aria-label'?: string
}

/** An input that tells its text at each change. */
export function Input({ onText, ...input }: InputProps): JSX.Element {
  // Preact's type tells each `type` apart by the other attributes.
  const attributes = input as JSX.IntrinsicElements['input']
  return <input {...attributes} onInput={(event) => onText(event.currentTarget.value)} />
}

/** A labelled input. */
export function Field({ label, ...input }: InputProps & { readonly label: string }): JSX.Element {
  return (
    <label>
      {label}
      <Input {...input} />
    </label>
  )
}

/** A labelled text of several lines. */
export function TextArea({
  label,
  value,
  onText,
  class: name,
  placeholder,
  spellcheck = false,
}: {
  readonly label: string
  readonly value: string | undefined
  readonly onText: (text: string) => void
  readonly class?: string
  readonly placeholder?: string
  readonly spellcheck?: boolean
}): JSX.Element {
  return (
    <label class={name}>
      {label}
      <textarea
        rows={2}
        spellcheck={spellcheck}
        placeholder={placeholder}
        value={value}
        onInput={(event) => onText(event.currentTarget.value)}
      />
    </label>
  )
}

/** A labelled choice; an option is its value, or its value and how it is shown. */
export function Select<Value extends string>({
  label,
  value,
  options,
  onChoose,
  class: name,
}: {
  readonly label: string
  readonly value: Value | undefined
  readonly options: readonly (Value | readonly [value: Value, text: string])[]
  readonly onChoose: (value: Value) => void
  readonly class?: string
}): JSX.Element {
  return (
    <label class={name}>
      {label}
      <select value={value} onChange={(event) => onChoose(event.currentTarget.value as Value)}>
        {options.map((option) => {
          const [each, text] = typeof option === 'string' ? [option, option] : option
          return (
            <option key={each} value={each}>
              {text}
            </option>
          )
        })}
      </select>
    </label>
  )
}

/** What is told of the last thing that was done, and a way to do one that tells its failure. */
export function useTelling() {
  const [told, tell] = useState('')
  /** Tells what it resolves with, or why it failed. */
  const attempt = (work: () => Promise<string>): void => {
    work().then(tell, (error: Error) => tell(error.message))
  }
  return { told, tell, attempt }
}

/** Why something cannot be shown or done, if there is a reason. */
export function Problem({ text }: { readonly text: string | undefined }): JSX.Element | null {
  if (text === undefined) return null
  return (
    <p class="problem" role="alert">
      {text}
    </p>
  )
}
