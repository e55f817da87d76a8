import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type Column, DataTable } from '../parts/data-table.js'
import { Field, Quiet } from '../parts/form.js'
import { formatBytes } from '../parts/format.js'
import { useAnswer } from '../server/use-answer.js'
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

interface CatalogTableProps {
  readonly pull: Pull
  /** What is below; it comes with the catalog, which would push it away. */
  readonly children: ComponentChildren
}

/** The models that can be downloaded, and which of them fit; nothing of a server that has no catalog. */
export function CatalogTable({ pull, children }: CatalogTableProps) {
  const [contextSize, setContextSize] = useState('4096')
  const [slots, setSlots] = useState('4')
  const query = new URLSearchParams({ slots, ctx_size: contextSize })
  // It fails while a number is being typed, or for good.
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
    { name: 'download', kind: 'number', cell: ({ size_bytes: size }) => formatBytes(size) },
    {
      name: 'memory',
      kind: 'number',
      cell: ({ total_bytes: total }) => (total === null ? 'unknown' : formatBytes(total)),
    },
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
        <div class="fields">
          <Field label="Fits with slots" type="number" min="1" value={slots} onText={setSlots} />
          <Field
            label="Tokens of each"
            type="number"
            min="1"
            value={contextSize}
            onText={setContextSize}
          />
        </div>
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
