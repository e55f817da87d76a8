import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type Column, DataTable, numbers } from '../parts/data-table.js'
import { Buttons, Field, Form, Quiet, useTelling } from '../parts/form.js'
import { formatBytes } from '../parts/format.js'
import { useAnswer, useServer } from '../server.js'
import { type Pull, PullState } from './pull-form.js'

interface Fetchable {
  readonly id: string
  readonly title: string
  readonly size_bytes: number
  readonly present: boolean
  readonly total_bytes: number | null
}

interface Catalog {
  readonly available_bytes: number
  readonly data: readonly Fetchable[]
}

/** The number and the size of the slots to plan for: as a query, and the fields to edit them. */
function useSizes() {
  const [slots, setSlots] = useState('4')
  const [tokens, setTokens] = useState('4096')
  const fields = [
    ['Slots', slots, setSlots],
    ['Tokens per slot', tokens, setTokens],
  ] as const
  return {
    sizes: { slots, ctx_size: tokens },
    sizeFields: fields.map(([label, value, onText]) => (
      <Field key={label} {...{ label, value, onText }} type="number" min="1" />
    )),
  }
}

interface CatalogTableProps {
  readonly pull: Pull
  /** Content below; shown together with the catalog, which would otherwise push it down. */
  readonly children: ComponentChildren
}

/** The models of the catalog, and which of them fit into memory; nothing if the server has no catalog. */
export function CatalogTable({ pull, children }: CatalogTableProps) {
  const { sizes, sizeFields } = useSizes()
  const query = new URLSearchParams(sizes)
  // The request may fail while a number is being typed.
  const { answer: catalog, problem } = useAnswer<Catalog>(`models/catalog?${query}`, {
    again: pull.isRunning,
  })
  if (catalog === undefined) return <>{problem !== undefined && children}</>
  const { available_bytes: free, data } = catalog
  const columns: readonly Column<Fetchable>[] = [
    {
      name: 'model',
      kind: 'head',
      cell: ({ id, title }) => (
        <>
          {id} <span class="about dim">{title}</span>
        </>
      ),
    },
    numbers('download', ({ size_bytes: size }) => formatBytes(size)),
    numbers('memory', ({ total_bytes: total }) =>
      total === null ? 'unknown' : formatBytes(total),
    ),
    {
      name: 'fits',
      cell: ({ total_bytes: total }) => (total === null ? '–' : total <= free ? 'yes' : 'no'),
    },
    {
      name: '',
      cell: ({ id, present }) =>
        present ? (
          'downloaded'
        ) : (
          <>
            <Quiet
              disabled={pull.isRunning}
              aria-label={`Download ${id}`}
              onClick={() => pull.start(id)}
            >
              Download
            </Quiet>{' '}
            {pull.name === id && <PullState pull={pull} />}
          </>
        ),
    },
  ]
  return (
    <>
      <section class="card" aria-label="Catalog">
        <h2>Catalog</h2>
        <div class="fields">{sizeFields}</div>
        <p class="hint">{formatBytes(free)} of memory are free.</p>
        <DataTable
          label="Models of the catalog"
          rows={data}
          keyOf={({ id }) => id}
          columns={columns}
        />
      </section>
      {children}
    </>
  )
}

interface Memory {
  readonly weights_bytes: number
  readonly total_bytes: number
  readonly available_bytes: number
}

/** Estimates a model's memory for the chosen slots, without loading it. */
export function MemoryForm({ models }: { readonly models: readonly string[] }) {
  const server = useServer()
  const [name, setName] = useState('')
  const { sizes, sizeFields } = useSizes()
  const { told, attempt } = useTelling()

  const ask = async (): Promise<string> => {
    const path = `models/memory?${new URLSearchParams({ model: name, ...sizes })}`
    const { data } = await server.json<{ readonly data: Memory }>(path)
    const { weights_bytes: weights, total_bytes: total, available_bytes: free } = data
    const parts = `${formatBytes(total)}, of which ${formatBytes(weights)} are weights`
    return `${parts}; ${formatBytes(free)} are free: it ${total <= free ? 'fits' : 'does not fit'}.`
  }

  return (
    <Form class="card" onSend={() => attempt(ask)}>
      <h2>Memory before loading</h2>
      <div class="fields">
        <Field
          label="Model of this server or of the catalog"
          list="memory-models"
          value={name}
          onText={setName}
        />
        <datalist id="memory-models">
          {models.map((model) => (
            <option key={model} value={model} />
          ))}
        </datalist>
        {sizeFields}
      </div>
      <Buttons send="Compute" disabled={name.trim() === ''} />
      <p role="status">{told}</p>
    </Form>
  )
}
