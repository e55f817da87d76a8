import type {
  ComponentChildren,
  FormHTMLAttributes,
  JSX,
  LooseInputHTMLAttributes,
  TextareaHTMLAttributes,
} from 'preact'
import type { IconNode } from 'lucide'
import { useState } from 'preact/hooks'
import { Icon } from './icon.js'

interface FormProps extends FormHTMLAttributes {
  readonly onSend: () => void
  /** Called with files that are dropped on the form. */
  readonly onDropped?: (files: readonly File[]) => void
}

/** Event handlers of an element on which files can be dropped. */
export const dropTarget = (onDropped: (files: readonly File[]) => void) => ({
  onDragOver: (event: DragEvent) => event.preventDefault(),
  onDrop(event: DragEvent) {
    event.preventDefault()
    onDropped([...(event.dataTransfer?.files ?? [])])
  },
})

/** A form whose sending does not leave the page. */
export function Form({ onSend, onDropped, ...others }: FormProps) {
  return (
    <form
      {...others}
      {...(onDropped && dropTarget(onDropped))}
      onSubmit={(event) => {
        event.preventDefault()
        onSend()
      }}
    />
  )
}

interface InputProps extends Omit<LooseInputHTMLAttributes, 'autofocus'> {
  readonly value: string | number
  readonly onText: (text: string) => void
  readonly onEscape?: (event: Event) => void
  /** Whether the input gets the focus when it appears. */
  readonly autofocus?: boolean
  readonly list?: string
}

/** A `ref` that gives an element the focus when it appears. */
export const focus = (element: HTMLElement | null): void => element?.focus()

/** An input that reports its text at each change. */
export function Input({ onText, onEscape, autofocus, ...input }: InputProps) {
  // Preact's types list attributes for each `type` of an input.
  const attributes = input as JSX.IntrinsicElements['input']
  return (
    <input
      {...attributes}
      {...(autofocus === true && { ref: focus })}
      onInput={(event) => onText(event.currentTarget.value)}
      onKeyDown={onEscape && ((event) => event.key === 'Escape' && onEscape(event))}
    />
  )
}

/** A labelled input. */
export function Field({ label, ...input }: InputProps & { readonly label: string }) {
  return (
    <label>
      {label}
      <Input {...input} />
    </label>
  )
}

interface NumberFieldProps extends Omit<InputProps, 'onText'> {
  readonly label: string
  readonly onNumber: (value: number) => void
}

/** A labelled number. The typed text stays, even if it is no number yet: `2.` may become `2.5`. */
export function NumberField({ value, onNumber, ...input }: NumberFieldProps) {
  const [typed, setTyped] = useState(String(value))
  const onText = (text: string): void => {
    setTyped(text)
    onNumber(Number(text))
  }
  const text = Number(typed) === value ? typed : value
  return <Field {...input} type="number" required value={text} onText={onText} />
}

interface TextAreaProps extends TextareaHTMLAttributes {
  readonly label: string
  readonly onText: (text: string) => void
}

/** A labelled text of several lines. */
export function TextArea({ label, class: name, onText, ...others }: TextAreaProps) {
  return (
    <label class={name}>
      {label}
      <textarea
        rows={2}
        spellcheck={false}
        {...others}
        onInput={(event) => onText(event.currentTarget.value)}
      />
    </label>
  )
}

interface SelectProps<Value extends string> {
  readonly label: string
  readonly value: Value | undefined
  readonly options: readonly (Value | readonly [value: Value, text: string])[]
  readonly onChoose: (value: Value) => void
  readonly class?: string
  /** Whether the label is for screen readers only. */
  readonly isLabelHidden?: boolean
}

/** A labelled choice; an option is its value, or its value and its text. */
export function Select<Value extends string>(props: SelectProps<Value>) {
  const { label, value, options, onChoose, class: name, isLabelHidden = false } = props
  return (
    <label class={name}>
      <span class={isLabelHidden ? 'sr-only' : undefined}>{label}</span>
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

interface UploadProps {
  readonly icon: IconNode
  readonly name: string
  readonly accept?: string
  readonly onChosen: (files: readonly File[]) => void
}

/** A button that opens a choice of files. */
export const Upload = ({ icon, name, accept, onChosen }: UploadProps) => (
  <label class="upload button bare" title={name}>
    <Icon of={icon} />
    <input
      type="file"
      {...{ accept }}
      multiple
      aria-label={name}
      onChange={({ currentTarget }) => {
        onChosen([...(currentTarget.files ?? [])])
        currentTarget.value = ''
      }}
    />
  </label>
)

interface CheckProps {
  readonly text: string
  readonly checked: boolean
  readonly onCheck: (isChecked: boolean) => void
  readonly class?: string
  readonly title?: string | undefined
}

/** A labelled checkbox. */
export const Check = ({ text, checked, onCheck, class: name = 'check', title }: CheckProps) => (
  <label class={name} title={title}>
    <input
      type="checkbox"
      checked={checked}
      onChange={({ currentTarget }) => onCheck(currentTarget.checked)}
    />
    {text}
  </label>
)

interface ButtonsProps {
  /** The text of the button that sends the form. */
  readonly send: string
  readonly disabled?: boolean
  readonly children?: ComponentChildren
}

/** The button that sends a form, and others beside it. */
export const Buttons = ({ send, disabled = false, children }: ButtonsProps) => (
  <div class="buttons">
    <button type="submit" {...{ disabled }}>
      {send}
    </button>
    {children}
  </div>
)

/** A secondary button. It keeps the focus while it is disabled. */
export function Quiet({ disabled, onClick, ...own }: JSX.IntrinsicElements['button']) {
  const press = disabled === true ? undefined : onClick
  return <button type="button" class="quiet" aria-disabled={disabled} onClick={press} {...own} />
}

/** What is told of the last thing that was done, and a way to do one that tells its failure. */
export function useTelling() {
  const [told, tell] = useState('')
  /** Runs the work, and shows the text it resolves with, or why it failed. */
  const attempt = (work: () => Promise<string>): void => {
    work().then(tell, (error: Error) => tell(error.message))
  }
  return { told, tell, attempt }
}

/** Shows an error, if there is one. */
export function Problem({ text }: { readonly text: string | undefined }) {
  if (text === undefined) return null
  return (
    <p class="problem" role="alert">
      {text}
    </p>
  )
}
