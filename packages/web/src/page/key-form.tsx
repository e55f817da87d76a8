import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { ServerError } from './server/server.js'

/** Asks for an API key. */
export function KeyForm({
  refusal,
  onKey,
}: {
  readonly refusal: ServerError
  readonly onKey: (key: string) => void
}): JSX.Element {
  const [key, setKey] = useState('')
  return (
    <form
      class="key"
      aria-label="API key"
      onSubmit={(event) => {
        event.preventDefault()
        onKey(key.trim())
      }}
    >
      <p role="alert">{refusal.message}</p>
      <label>
        API key, kept until this tab is closed
        <input
          type="password"
          autocomplete="off"
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Use it</button>
    </form>
  )
}
