import { useState } from 'preact/hooks'
import { formatBytes } from '../parts/format.js'
import { Buttons, Field, Form } from '../parts/form.js'
import { readLines, type Server } from '../server.js'

/** The server's progress of a download. */
interface Progress {
  readonly status?: string
  readonly total?: number
  readonly completed?: number
  readonly error?: string
}

/** The current or last download of a model. */
export type Pull = ReturnType<typeof usePull>

/** Downloads models, one at a time; a download goes on while another page is shown. */
export function usePull(server: Server) {
  const [name, setName] = useState('')
  const [progress, setProgress] = useState<Progress>({})
  const [isRunning, setRunning] = useState(false)

  const pull = async (model: string): Promise<void> => {
    setName(model)
    setRunning(true)
    setProgress({ status: 'asking' })
    try {
      const body = { model, stream: true }
      const response = await server.call('api/pull', { method: 'POST', body })
      for await (const line of readLines(response)) setProgress(JSON.parse(line) as Progress)
    } catch (error) {
      setProgress({ error: (error as Error).message })
    }
    setRunning(false)
  }
  return { name, progress, isRunning, start: (model: string) => void pull(model) }
}

/** A form that downloads a model by its name, and shows the progress. */
export function PullForm({ pull }: { readonly pull: Pull }) {
  const [name, setName] = useState(pull.name)
  const { total, completed = 0 } = pull.progress
  return (
    <Form class="card" onSend={() => pull.start(name.trim())}>
      <h2>Download a model</h2>
      <Field label="Name in the catalog or in the configuration" value={name} onText={setName} />
      <Buttons send="Download" disabled={pull.isRunning || name.trim() === ''} />
      {total !== undefined && <progress max={total} value={completed} aria-label="Downloaded" />}
      <p role="status">
        <PullState pull={pull} />
      </p>
    </Form>
  )
}

/** The progress of a download, or why it failed. */
export function PullState({ pull }: { readonly pull: Pull }) {
  const { status = '', total, completed = 0, error } = pull.progress
  return (
    <>
      {status}
      {total !== undefined && ` ${formatBytes(completed)} of ${formatBytes(total)}`}
      {error !== undefined && <span class="problem">{error}</span>}
    </>
  )
}
