import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ColumnHeads } from '../parts/column-heads.js'
import { formatBytes } from '../parts/format.js'
import { keepLooking } from '../server/keep-looking.js'
import { isRefusal } from '../server/server.js'
import { useServer } from '../server/server-context.js'
import { MemoryForm } from './memory-form.js'
import { PullForm } from './pull-form.js'
import type { Pull } from './use-pull.js'

interface Model {
  readonly id: string
  readonly status: { readonly value: string; readonly error?: string }
  readonly users: number
  readonly waiting: number
  readonly expires_at: string | null
  readonly size_bytes: number | null
}

/** Milliseconds between two looks at the models. */
const lookMs = 2000

/** The models: what is in memory, and loading, unloading and fetching them. */
export function ModelsPage({ pull }: { readonly pull: Pull }): JSX.Element {
  const server = useServer()
  const [models, setModels] = useState<readonly Model[]>([])
  const [told, setTold] = useState('')
  /** Why the table may not be right any more. */
  const [problem, setProblem] = useState<string>()

  const look = async (signal?: AbortSignal): Promise<boolean> => {
    const call = signal && { signal }
    const { data } = await server.json<{ readonly data: readonly Model[] }>('models', call)
    setModels(data)
    setProblem(undefined)
    return true
  }
  useEffect(
    () =>
      keepLooking({
        look,
        everyMs: lookMs,
        onFailure(error) {
          setProblem(error.message)
          return !isRefusal(error)
        },
      }),
    [server],
  )

  const change = async (what: 'load' | 'unload', model: string): Promise<void> => {
    try {
      setTold(`${what === 'load' ? 'Loading' : 'Unloading'} ${model} …`)
      const body = { model }
      const { data } = await server.json<{ readonly data: Model }>(`models/${what}`, {
        method: 'POST',
        body,
      })
      setTold(`${model} is ${data.status.value}.`)
    } catch (error) {
      setTold((error as Error).message)
    }
    await look().catch(() => {})
  }

  return (
    <>
      <h1>Models</h1>
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <div class="scroll" tabIndex={0} role="region" aria-label="Models">
        <table class="stacks">
          <thead>
            <tr>
              <ColumnHeads names={['model', 'state']} />
              <ColumnHeads names={['size', 'requests', 'waiting for it', 'unloads at']} numbers />
              <td />
            </tr>
          </thead>
          <tbody>
            {models.map((model) => (
              <Row key={model.id} model={model} onChange={(what) => void change(what, model.id)} />
            ))}
          </tbody>
        </table>
      </div>
      <p role="status">{told}</p>
      <PullForm pull={pull} />
      <MemoryForm models={models.map(({ id }) => id)} />
    </>
  )
}

function Row({
  model,
  onChange,
}: {
  readonly model: Model
  readonly onChange: (what: 'load' | 'unload') => void
}): JSX.Element {
  const { id, status, users, waiting, expires_at: expires, size_bytes: size } = model
  const isLoaded = status.value === 'loaded'
  const isIdle = isLoaded || status.value === 'unloaded'
  return (
    <tr>
      <th scope="row">{id}</th>
      <td data-label="state">
        {status.value}
        {status.error !== undefined && <span class="problem"> {status.error}</span>}
      </td>
      <td class="number" data-label="size">
        {size === null ? '–' : formatBytes(size)}
      </td>
      <td class="number" data-label="requests">
        {users}
      </td>
      <td class="number" data-label="waiting for it">
        {waiting}
      </td>
      <td class="number" data-label="unloads at">
        {expires === null ? '–' : new Date(expires).toLocaleTimeString()}
      </td>
      <td>
        <button
          class="quiet"
          disabled={!isIdle}
          aria-label={`${isLoaded ? 'Unload' : 'Load'} ${id}`}
          onClick={() => onChange(isLoaded ? 'unload' : 'load')}
        >
          {isLoaded ? 'Unload' : 'Load'}
        </button>
      </td>
    </tr>
  )
}
