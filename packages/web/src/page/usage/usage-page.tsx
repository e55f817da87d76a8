import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ColumnHeads } from '../parts/column-heads.js'
import { download } from '../parts/download.js'
import { useServer } from '../server/server-context.js'

type Sum = Readonly<Record<string, string | number | null>>

interface Usage {
  readonly from: string
  readonly to: string
  readonly usage: readonly Sum[]
}

/** What sums can be told apart by, as the server takes it. */
const groupings = ['key,model', 'key', 'tenant', 'model', 'day', 'day,key,model'] as const

const counts = ['requests', 'unfinished', 'prompt_tokens', 'cached_tokens', 'generated_tokens']
const inWords = (name: string): string => name.replaceAll('_', ' ')

/** What each key has used, in a table and as a file for a spreadsheet. */
export function UsagePage(): JSX.Element {
  const server = useServer()
  const [by, setBy] = useState<string>(groupings[0])
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const [found, setFound] = useState<Usage>()
  const [told, setTold] = useState('')

  const query = new URLSearchParams({ by, ...(from && { from }), ...(to && { to }) }).toString()
  useEffect(() => {
    const gone = new AbortController()
    server
      .json<Usage>(`admin/usage?${query}`, { signal: gone.signal })
      .then((usage) => {
        setFound(usage)
        setTold('')
      })
      .catch((error: Error) => gone.signal.aborted || setTold(error.message))
    return () => gone.abort()
  }, [server, query])

  const save = async (): Promise<void> => {
    try {
      const response = await server.call(`admin/usage?${query}&format=csv`)
      download('usage.csv', await response.text())
    } catch (error) {
      setTold((error as Error).message)
    }
  }

  return (
    <>
      <h1>Usage</h1>
      <form class="fields" onSubmit={(event) => event.preventDefault()}>
        <label>
          By
          <select value={by} onChange={(event) => setBy(event.currentTarget.value)}>
            {groupings.map((each) => (
              <option key={each} value={each}>
                {each.replaceAll(',', ', ')}
              </option>
            ))}
          </select>
        </label>
        <label>
          From
          <input
            type="date"
            value={from}
            onChange={(event) => setFrom(event.currentTarget.value)}
          />
        </label>
        <label>
          To
          <input type="date" value={to} onChange={(event) => setTo(event.currentTarget.value)} />
        </label>
        <button type="button" class="quiet end" onClick={() => void save()}>
          Save as CSV
        </button>
      </form>
      <p role="status">{told}</p>
      {found !== undefined && told === '' && <UsageTable usage={found} groups={by.split(',')} />}
    </>
  )
}

/** The sums of some days, a row for each. */
function UsageTable({
  usage: { from, to, usage },
  groups,
}: {
  readonly usage: Usage
  readonly groups: readonly string[]
}): JSX.Element {
  const days = from === to ? from : `${from} to ${to}`
  if (usage.length === 0) return <p class="hint">Nothing was asked for, {days} (UTC).</p>
  return (
    <>
      <p class="hint">{days} (UTC). Cached tokens are those of prompts that were found computed.</p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Usage">
        <table class="stacks">
          <thead>
            <tr>
              <ColumnHeads names={groups} />
              <ColumnHeads names={counts.map(inWords)} numbers />
            </tr>
          </thead>
          <tbody>
            {usage.map((sum) => (
              <tr key={groups.map((name) => sum[name]).join('\n')}>
                {groups.map((name) => (
                  <td key={name} data-label={name}>
                    {sum[name] ?? '–'}
                  </td>
                ))}
                {counts.map((name) => (
                  <td class="number" key={name} data-label={inWords(name)}>
                    {Number(sum[name]).toLocaleString('en-US')}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
