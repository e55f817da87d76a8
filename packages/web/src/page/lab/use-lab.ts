import { useEffect, useRef, useState } from 'preact/hooks'
import type { LabMessage } from './lab-worker.js'
import type { LabJob } from './lab-job.js'
import type { LabResult } from './run-lab.js'

const notLoaded =
  'The lab could not be loaded: the server is away, or is another version. Reload the page.'

/** Runs jobs in a worker, so that the page goes on meanwhile, and has what came of them. */
export function useLab() {
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
      else if (data.type === 'failed') {
        setProblems((known) => [...known, `${data.policy}: ${data.message}`])
      } else stop()
    })
    started.addEventListener('error', (event) => {
      // The event of a worker that could not be loaded says nothing.
      const { message = notLoaded } = event as Partial<ErrorEvent>
      setProblems((known) => [...known, message])
      stop()
    })
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is for windows
    started.postMessage(job)
  }
  return { results, problems, isRunning, run, stop }
}
