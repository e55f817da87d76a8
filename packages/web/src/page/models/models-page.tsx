import { Page } from '../shell/bar.js'
import { type Column, DataTable, numbers } from '../parts/data-table.js'
import { formatBytes } from '../parts/format.js'
import { Problem, Quiet, useTelling } from '../parts/form.js'
import { useAnswer, useServer } from '../server.js'
import { CatalogTable, MemoryForm } from './what-fits.js'
import { type Pull, PullForm } from './pull-form.js'

interface Model {
  readonly id: string
  readonly status: { readonly value: string; readonly error?: string }
  readonly users: number
  readonly waiting: number
  readonly expires_at: string | null
  readonly size_bytes: number | null
}

/** Milliseconds between two polls of the models. */
const lookMs = 1000

/** The models: which are in memory; buttons load, unload and download them. */
export function ModelsPage({ pull }: { readonly pull: Pull }) {
  const server = useServer()
  const { told, tell, attempt } = useTelling()
  type Listed = { readonly data: readonly Model[] }
  const { answer, problem, askAgain } = useAnswer<Listed>('models', { everyMs: lookMs })
  const models = answer?.data ?? []

  const change = async (what: 'load' | 'unload', model: string): Promise<string> => {
    tell(`${what === 'load' ? 'Loading' : 'Unloading'} ${model} …`)
    try {
      const call = { method: 'POST', body: { model } } as const
      const { data } = await server.json<{ readonly data: Model }>(`models/${what}`, call)
      return `${model} is ${data.status.value}.`
    } finally {
      askAgain()
    }
  }

  const button: Column<Model> = {
    name: '',
    cell({ id, status: { value } }) {
      const isLoaded = value === 'loaded'
      const text = isLoaded ? 'Unload' : 'Load'
      return (
        <Quiet
          disabled={!isLoaded && value !== 'unloaded'}
          aria-label={`${text} ${id}`}
          onClick={() => attempt(async () => await change(isLoaded ? 'unload' : 'load', id))}
        >
          {text}
        </Quiet>
      )
    },
  }
  return (
    <Page title="Models">
      <Problem text={problem} />
      <DataTable
        label="Models"
        rows={models}
        keyOf={({ id }) => id}
        columns={[...columns, button]}
      />
      <p role="status">{told}</p>
      {(answer !== undefined || problem !== undefined) && (
        <CatalogTable pull={pull}>
          <div class="cards">
            <PullForm pull={pull} />
            <MemoryForm models={models.map(({ id }) => id)} />
          </div>
        </CatalogTable>
      )}
    </Page>
  )
}

const columns: readonly Column<Model>[] = [
  { name: 'model', kind: 'head', cell: ({ id }) => id },
  {
    name: 'state',
    cell: ({ status: { value, error } }) => (
      <>
        {value}
        {error !== undefined && <span class="problem"> {error}</span>}
      </>
    ),
  },
  numbers('size', ({ size_bytes: size }) => (size === null ? '–' : formatBytes(size))),
  numbers('requests', ({ users }) => users),
  numbers('waiting', ({ waiting }) => waiting),
  numbers('unloads at', ({ expires_at: at }) =>
    at === null ? '–' : new Date(at).toLocaleTimeString(),
  ),
]
