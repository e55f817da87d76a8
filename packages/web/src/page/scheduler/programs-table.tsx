import type { ProgramReport } from '@cllm/core'
import { DataTable } from '../parts/data-table.js'
import { formatMs, formatShare } from '../parts/format.js'
import { ofModel, useAnswer } from '../server/use-answer.js'

/** With its share of the tokens that were computed. */
type Program = ProgramReport & { readonly share: number }

/** The latest are shown. */
const most = 20

/** The programs, such as agents: their calls, how their tools pause, what slots keep of them. */
export function Programs({ model }: { readonly model: string }) {
  type Told = { readonly data: { readonly programs: readonly Program[] } }
  const { answer } = useAnswer<Told>(ofModel('admin/programs', model), { everyMs: 2000 })
  const programs = answer?.data.programs.slice(0, most) ?? []
  if (programs.length === 0) return null
  return (
    <section class="card" aria-label="Programs">
      <h2>Programs</h2>
      <DataTable
        label="Programs and what slots keep of them"
        rows={programs}
        keyOf={({ id, tenant }) => `${tenant} ${id}`}
        columns={[
          { name: 'program', kind: 'head', cell: ({ id }) => <code>{id.slice(0, 40)}</code> },
          { name: 'tenant', cell: ({ tenant }) => tenant },
          { name: 'calls', kind: 'number', cell: ({ calls }) => calls },
          {
            name: 'now',
            cell: ({ open, pausesSinceMs: since }) =>
              open > 0 ? `${open} under way` : `pauses for ${formatMs(since ?? 0)}`,
          },
          {
            name: 'mean pause',
            kind: 'number',
            cell: ({ pauses, pausedMs }) => (pauses === 0 ? '–' : formatMs(pausedMs / pauses)),
          },
          {
            name: 'tokens kept',
            kind: 'number',
            cell: ({ keptTokens }) => keptTokens.toLocaleString('en-US'),
          },
          { name: 'share', kind: 'number', cell: ({ share }) => formatShare(share) },
        ]}
      />
    </section>
  )
}
