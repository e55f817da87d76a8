import { useEffect, useRef, useState } from 'preact/hooks'
import { Field, Form, Quiet, useTelling } from '../parts/form.js'
import type { ServerError } from '../server.js'
import { X } from 'lucide'
import type { Notice } from '../chat/chat-store.js'
import { IconButton } from '../parts/icon.js'

/** What a header may hold, and every key does: a space or a quote that was pasted with it does not show. */
const keyText = /^[\x21-\x7e]+$/
const wrongLetters = 'A key is of plain letters, digits and signs; this one has other characters.'

interface KeyFormProps {
  readonly refusal: ServerError
  /** Tries a key; rejects where it is not taken. */
  readonly onKey: (key: string) => Promise<void>
  readonly onLater: () => void
}

/** Asks for an API key. */
export function KeyForm({ refusal, onKey, onLater }: KeyFormProps) {
  const [key, setKey] = useState('')
  const { told, attempt } = useTelling()
  const send = async (): Promise<string> => {
    const text = key.trim()
    if (!keyText.test(text)) throw new Error(wrongLetters)
    await onKey(text)
    return ''
  }
  return (
    <Form class="key" aria-label="API key" onSend={() => attempt(send)}>
      <p role="alert">{told || refusal.message}</p>
      <Field
        label="API key, kept until this tab is closed"
        type="password"
        autocomplete="off"
        required
        value={key}
        onText={setKey}
      />
      <button type="submit">Use it</button>
      <Quiet onClick={onLater}>Not now</Quiet>
    </Form>
  )
}

/** Milliseconds that a notice stays; longer while it is pointed at or has the focus. */
const stayMs = 12_000

/** Says what was done, and undoes it for a while. */
export function Toast({ notice, onEnd }: { readonly notice: Notice; readonly onEnd: () => void }) {
  const toast = useRef<HTMLDivElement>(null)
  useEffect(() => {
    toast.current?.showPopover() // above the menu of a phone, in which conversations are deleted
    const timer = setInterval(() => {
      if (toast.current?.matches(':hover, :focus-within') !== true) onEnd()
    }, stayMs)
    return () => clearInterval(timer)
  }, [notice])
  return (
    <div class="toast" role="status" popover="manual" ref={toast}>
      <span>{notice.text}</span>
      {notice.undo !== undefined && (
        <Quiet title="Ctrl+Z" onClick={notice.undo}>
          Undo
        </Quiet>
      )}
      <IconButton icon={X} name="Dismiss" onPress={onEnd} />
    </div>
  )
}
