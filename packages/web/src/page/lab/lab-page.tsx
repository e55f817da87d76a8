import type { PolicySetting, Recording } from '@cllm/core'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Buttons, Form, Problem, Quiet, useTelling } from '../parts/form.js'
import { CandidatesForm, usualCandidates } from './candidates-form.js'
import type { LabJob } from './lab-job.js'
import { LoadForm, usualDraft } from './load-form.js'
import { Curve, curves, ResultsTable } from './results.js'
import { PolicyChange } from '../policy/policy-form.js'
import { counted } from '../parts/format.js'
import { Page } from '../shell/bar.js'
import { useServer } from '../server.js'
import type { LabMessage } from './lab-worker.js'
import type { LabResult } from './run-lab.js'

/** The lab: simulates a load with several policies in this browser, and shows the results side by side. */
export function LabPage() {
  const server = useServer()
  const lab = useLab()
  const [draft, setDraft] = useState(usualDraft)
  const [drafts, setDrafts] = useState(usualCandidates)
  const [ownOrder, setOwnOrder] = useState('request.promptTokens + 2 * request.maxTokens')
  const [wanted, setWanted] = useState<PolicySetting>()
  const { told, tell, attempt } = useTelling()

  const readLoad = async (): Promise<LabJob['load']> => {
    const { source, made, file, requests } = draft
    if (source === 'made') return { kind: 'made', load: made }
    if (source === 'recording') {
      return { kind: 'recording', recording: await server.json<Recording>('admin/recorder') }
    }
    if (file === undefined) throw new Error('Choose a file first, or drop one.')
    return { kind: 'file', requests, ...file }
  }

  const start = async (): Promise<string> => {
    tell('')
    const load = await readLoad()
    const { machine, slots } = draft
    lab.run({ load, machine, slots, ownOrder, candidates: drafts })
    if (load.kind !== 'recording') return ''
    const { arrivals, durationMs, steps } = load.recording
    const minutes = (durationMs / 60_000).toFixed(1)
    return `${counted(arrivals.length, 'request')} and ${counted(steps.length, 'step')} of ${minutes} minutes`
  }

  const { results } = lab
  return (
    <Page title="Lab" kind="lab">
      <p class="hint">
        A load through the server's own engine and policies, on simulated time, in this browser. The
        server does nothing for it.
      </p>
      <Form onSend={() => attempt(start)}>
        <div class="cards">
          <LoadForm draft={draft} onChange={setDraft} />
          <CandidatesForm {...{ drafts, ownOrder, setOwnOrder }} onChange={setDrafts} />
        </div>
        <Buttons send="Run" disabled={lab.isRunning}>
          {lab.isRunning && <Quiet onClick={lab.stop}>Stop</Quiet>}
        </Buttons>
      </Form>
      <p role="status">
        {told}
        {lab.isRunning && ` ${results.length} of ${drafts.length} policies done …`}
      </p>
      {lab.problems.map((problem) => (
        <Problem key={problem} text={problem} />
      ))}
      {results.length > 0 && (
        <>
          <ResultsTable results={results} onApply={setWanted} />
          <PolicyChange path="admin/scheduler" wanted={wanted} onEnd={() => setWanted(undefined)} />
          <div class="cards">
            {curves.map((curve) => (
              <Curve key={curve.options.caption} {...curve} results={results} />
            ))}
          </div>
        </>
      )}
    </Page>
  )
}

const notLoaded =
  'The lab could not be loaded: the server is away, or is another version. Reload the page.'

/** Runs jobs in a worker, so that the page stays responsive, and keeps their results. */
function useLab() {
  const [results, setResults] = useState<readonly LabResult[]>([])
  const [problems, setProblems] = useState<readonly string[]>([])
  const [isRunning, setRunning] = useState(false)
  const worker = useRef<Worker>(undefined)
  const stop = (): void => {
    worker.current?.terminate()
    worker.current = undefined
    setRunning(false)
  }
  useEffect(() => stop, [])
  const run = (job: LabJob): void => {
    stop()
    setResults([])
    setProblems([])
    setRunning(true)
    const started = new Worker(new URL('./lab-worker.ts', import.meta.url), { type: 'module' })
    worker.current = started
    started.addEventListener('message', ({ data }: MessageEvent<LabMessage>) => {
      if (data.type === 'result') setResults((known) => [...known, data.result])
      else if (data.type === 'failed') setProblems((known) => [...known, data.problem])
      else stop()
    })
    started.addEventListener('error', (event) => {
      // The event of a worker that could not be loaded has no message.
      const { message = notLoaded } = event as Partial<ErrorEvent>
      setProblems((known) => [...known, message])
      stop()
    })
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows
    started.postMessage(job)
  }
  return { results, problems, isRunning, run, stop }
}
