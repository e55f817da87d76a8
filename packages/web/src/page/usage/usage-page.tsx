import { useState } from 'preact/hooks'
import { Page } from '../shell/bar.js'
import { type Column, DataTable, numbers } from '../parts/data-table.js'
import { download } from '../parts/download.js'
import { Field, Form, Quiet, Select, useTelling } from '../parts/form.js'
import { useAnswer, useServer } from '../server.js'

type Sum = Readonly<Record<string, string | number | null>>

interface Usage {
  readonly from: string
  readonly to: string
  readonly usage: readonly Sum[]
}

/** What sums can be told apart by, as the server takes it. */
const groupings = ['key,model', 'key', 'tenant', 'model', 'day', 'day,key,model'] as const

const counts = ['requests', 'unfinished', 'prompt_tokens', 'cached_tokens', 'generated_tokens']

/** What each key has used, in a table and as a file for a spreadsheet. */
export function UsagePage() {
  const server = useServer()
  const [by, setBy] = useState<string>(groupings[0])
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const { told, attempt } = useTelling()

  const query = new URLSearchParams({ by, ...(from && { from }), ...(to && { to }) }).toString()
  const { answer: found, problem } = useAnswer<Usage>(`admin/usage?${query}`)

  const save = async (): Promise<string> => {
    const response = await server.call(`admin/usage?${query}&format=csv`)
    download('usage.csv', await response.text())
    return ''
  }

  return (
    <Page title="Usage">
      <Form class="fields" onSend={() => {}}>
        <Select
          label="By"
          value={by}
          options={groupings.map((each) => [each, each.replaceAll(',', ', ')] as const)}
          onChoose={setBy}
        />
        <Field label="From" type="date" value={from} onText={setFrom} />
        <Field label="To" type="date" value={to} onText={setTo} />
        <Quiet class="quiet end" onClick={() => attempt(save)}>
          Save as CSV
        </Quiet>
      </Form>
      <p role="status">{problem ?? told}</p>
      {found !== undefined && problem === undefined && (
        <UsageTable usage={found} groups={by.split(',')} />
      )}
    </Page>
  )
}

interface UsageTableProps {
  readonly usage: Usage
  readonly groups: readonly string[]
}

/** The sums of some days, a row for each. */
function UsageTable({ usage: { from, to, usage }, groups }: UsageTableProps) {
  const days = from === to ? from : `${from} to ${to}`
  if (usage.length === 0) return <p class="hint">No requests, {days} (UTC).</p>
  return (
    <>
      <p class="hint">{days} (UTC). Cached tokens are prompt tokens that the cache had.</p>
      <DataTable
        label="Usage"
        rows={usage}
        keyOf={(sum) => groups.map((name) => sum[name]).join('\n')}
        columns={[
          ...groups.map((name): Column<Sum> => ({ name, cell: (sum) => sum[name] ?? '–' })),
          ...counts.map((name) =>
            numbers<Sum>(name.replaceAll('_', ' '), (sum) =>
              Number(sum[name]).toLocaleString('en-US'),
            ),
          ),
        ]}
      />
    </>
  )
}
