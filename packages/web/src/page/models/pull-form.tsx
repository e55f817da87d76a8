import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { formatBytes } from '../parts/format.js'
import { TextField } from '../parts/text-field.js'
import type { Pull } from './use-pull.js'

/** Fetches a model by its name, and shows how far that is. */
export function PullForm({ pull }: { readonly pull: Pull }): JSX.Element {
  const [name, setName] = useState(pull.name)
  const { status = '', total, completed = 0, error } = pull.progress
  return (
    <form
      class="card narrow"
      onSubmit={(event) => {
        event.preventDefault()
        pull.start(name.trim())
      }}
    >
      <h2>Fetch a model</h2>
      <TextField
        label="A name of the catalog or of the configuration"
        value={name}
        onText={setName}
      />
      <div class="buttons">
        <button type="submit" disabled={pull.isRunning || name.trim() === ''}>
          Fetch
        </button>
      </div>
      {total !== undefined && <progress max={total} value={completed} aria-label="Fetched" />}
      <p role="status">
        {status}
        {total !== undefined && ` ${formatBytes(completed)} of ${formatBytes(total)}`}
        {error !== undefined && <span class="problem">{error}</span>}
      </p>
    </form>
  )
}
