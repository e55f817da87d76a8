import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { formatBytes } from '../parts/format.js'
import { readLines } from '../server/read-lines.js'
import { TextField } from '../parts/text-field.js'
import { useServer } from '../server/server-context.js'

interface Progress {
  readonly status?: string
  readonly total?: number
  readonly completed?: number
  readonly error?: string
}

/** Fetches a model by its name, and shows how far that is. */
export function PullForm({ onDone }: { readonly onDone: () => void }): JSX.Element {
  const server = useServer()
  const [name, setName] = useState('')
  const [progress, setProgress] = useState<Progress>()
  const [isPulling, setPulling] = useState(false)

  const pull = async (): Promise<void> => {
    setPulling(true)
    setProgress({ status: 'asking' })
    try {
      const body = { model: name.trim(), stream: true }
      const response = await server.call('api/pull', { method: 'POST', body })
      for await (const line of readLines(response)) setProgress(JSON.parse(line) as Progress)
    } catch (error) {
      setProgress({ error: (error as Error).message })
    }
    setPulling(false)
    onDone()
  }

  const { status = '', total, completed = 0, error } = progress ?? {}
  return (
    <form
      class="card narrow"
      onSubmit={(event) => {
        event.preventDefault()
        void pull()
      }}
    >
      <h2>Fetch a model</h2>
      <TextField
        label="A name of the catalog or of the configuration"
        value={name}
        onText={setName}
      />
      <div class="buttons">
        <button type="submit" disabled={isPulling || name.trim() === ''}>
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
