import { DataTable, numbers } from '../parts/data-table.js'
import { counted, formatBytes, formatMs, formatShare } from '../parts/format.js'
import { linkTo } from './tables.js'
import { hitText } from './words.js'
import { cachedFrom, type LiveProps } from './live-state.js'
import type { ProgramReport } from '@cllm/core'
import { ofModel, useAnswer } from '../server.js'

const count = (tokens: number): string => tokens.toLocaleString('en-US')

/** A table of the slots with their contents: the KV cache. */
export function Slots({ state }: LiveProps) {
  const { slots, slotTokens, kvPool } = state
  const empty = slots.filter(({ request, tokens }) => request === undefined && tokens === 0).length
  return (
    <section class="card" aria-label="KV cache">
      <h2>KV cache</h2>
      {kvPool !== undefined && (
        <p>
          All slots share cells for {kvPool.tokens} tokens, of which {kvPool.free} are free.
        </p>
      )}
      <DataTable
        label="Slots and what they hold"
        stacks={false}
        rows={slots.filter(({ request, tokens }) => request !== undefined || tokens > 0)}
        keyOf={({ slot }) => slot}
        columns={[
          { name: 'slot', cell: ({ slot }) => slot },
          { name: 'request', cell: ({ request: id }) => (id === undefined ? '–' : linkTo(id)) },
          {
            name: 'state',
            cell: ({ state, tokens }) =>
              state === 'idle' && tokens > 0 ? 'kept for reuse' : state,
          },
          {
            name: `tokens of ${count(slotTokens)}`,
            cell: ({ slot, tokens }) => (
              <div class="filled">
                <meter
                  min={0}
                  max={slotTokens}
                  value={tokens}
                  aria-label={`Tokens in slot ${slot}`}
                />
                {count(tokens)}
              </div>
            ),
          },
        ]}
      />
      {empty > 0 && <p class="hint">{empty === 1 ? '1 slot is' : `${empty} slots are`} empty.</p>}
    </section>
  )
}

/** Tables of the cache tiers behind the slots, and of where cached tokens came from. */
export function Tiers({ state: { cache, frames } }: LiveProps) {
  const sources = [...cachedFrom(frames)]
  const tiers = [['RAM', cache?.ram] as const, ['disk', cache?.disk] as const]
  return (
    <section class="card" aria-label="Saved prefixes">
      <h2>Saved prefixes</h2>
      {cache === undefined && <p class="hint">Nothing is saved outside the slots.</p>}
      {tiers.map(
        ([name, tier]) =>
          tier !== undefined && (
            <p key={name}>
              {name}: {tier.states} saved, {formatBytes(tier.bytes)} of{' '}
              {formatBytes(tier.limitBytes)}; {counted(tier.hitTokens, 'token')} reused by{' '}
              {counted(tier.hits, 'request')}
              <meter
                class="wide"
                min={0}
                max={tier.limitBytes}
                value={tier.bytes}
                aria-label={`Bytes in ${name}`}
              />
            </p>
          ),
      )}
      {sources.length > 0 && (
        <ul>
          {sources.map(([from, tokens]) => (
            <li key={from}>
              {counted(tokens, 'cached token')} of the last minute: {hitText(from)}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

/** A program, with its share of the computed tokens. */
type Program = ProgramReport & { readonly share: number }

/** The most programs to show: the latest. */
const most = 20

/** A table of programs, such as agents: their calls, the pauses of their tools, and their tokens in slots. */
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
          numbers<Program>('calls', ({ calls }) => calls),
          {
            name: 'now',
            cell: ({ open, pausesSinceMs: since }) =>
              open > 0 ? `${open} under way` : `pauses for ${formatMs(since ?? 0)}`,
          },
          numbers<Program>('mean pause', ({ pauses, pausedMs }) =>
            pauses === 0 ? '–' : formatMs(pausedMs / pauses),
          ),
          numbers<Program>('prompts parted', ({ partings: { prompts, tokens } }) =>
            prompts === 0 ? '–' : `${count(prompts)} (${counted(tokens, 'token')} again)`,
          ),
          numbers<Program>('tokens kept', ({ keptTokens }) => count(keptTokens)),
          numbers<Program>('share', ({ share }) => formatShare(share)),
        ]}
      />
    </section>
  )
}
