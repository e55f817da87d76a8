import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { StackedChart } from '../parts/chart.js'
import { useServer } from '../server/server-context.js'
import { EndedRequests } from './ended-requests.js'
import { Slots, Tiers } from './kv-tables.js'
import { Figures, Queue, Tenants } from './tables.js'
import { Gantt } from './gantt.js'
import { type LiveState, shownMs, tokensBySecond } from './live-state.js'
import { PolicyForm } from './policy-form.js'
import { RequestPanel } from './request-panel.js'
import { useLive } from './use-live.js'

const choose = (id: string): void => {
  location.hash = `scheduler/${id}`
}

/** The scheduler at work: what every slot does, who waits and why, and which policy decides. */
export function SchedulerPage({
  models,
  request,
}: {
  readonly models: readonly string[]
  /** The request to explain. */
  readonly request: string | undefined
}): JSX.Element {
  const server = useServer()
  const [model, setModel] = useState('')
  const { state, problem } = useLive(server, model)
  return (
    <div class="live">
      <h1>Scheduler</h1>
      {models.length > 1 && (
        <label class="narrow">
          Model
          <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
            <option value="">the server's default</option>
            {models.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {request !== undefined && <RequestPanel id={request} />}
      {state === undefined ? (
        <p class="hint">Waiting for the engine …</p>
      ) : (
        <Live state={state} request={request} model={model} />
      )}
    </div>
  )
}

function Live({
  state,
  request,
  model,
}: {
  readonly state: LiveState
  readonly request: string | undefined
  readonly model: string
}): JSX.Element {
  const { now, slots, spans, frames } = state
  // Requests that wait now have no span of it yet.
  const waits = state.queue.map(({ id, arrival }) => {
    return { id, kind: 'wait', atMs: arrival, untilMs: now, tokens: 0 } as const
  })
  const { prompts, answers } = tokensBySecond(frames, now)
  const busy = slots.filter(({ request }) => request !== undefined).length
  const picture = {
    slots: slots.length,
    spans: [...spans, ...waits],
    fromMs: now - shownMs,
    untilMs: now,
    chosen: request,
  }
  return (
    <>
      <section class="card" aria-label="Slots over time">
        <h2>Slots, the last 20 seconds</h2>
        <Gantt
          picture={picture}
          label={`${busy} of ${slots.length} slots busy, ${state.waiting} requests wait`}
          onChoose={choose}
        />
      </section>
      <Queue state={state} />
      <EndedRequests state={state} />
      <div class="cards">
        <Figures state={state} />
        <PolicyForm model={model} inForce={state.policy} />
        <section class="card" aria-label="Steps">
          <h2>What steps compute, the last minute</h2>
          <StackedChart
            label="Tokens of answers and prompts in each of the last 60 seconds"
            series={[
              { name: 'answers', kind: 'decode', values: answers },
              { name: 'prompts', kind: 'prefill', values: prompts },
            ]}
            unit="tokens/s"
          />
        </section>
        <Slots state={state} />
        <Tiers state={state} />
        <Tenants state={state} />
      </div>
    </>
  )
}
