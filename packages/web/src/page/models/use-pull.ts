import { useState } from 'preact/hooks'
import { readLines } from '../server/read-lines.js'
import type { Server } from '../server/server.js'

/** How far a model is fetched, as the server tells it. */
export interface Progress {
  readonly status?: string
  readonly total?: number
  readonly completed?: number
  readonly error?: string
}

/** The model that is being fetched, or was last. */
export interface Pull {
  readonly name: string
  readonly progress: Progress
  readonly isRunning: boolean
  readonly start: (name: string) => void
}

/** Fetches models, one at a time; it goes on while another page is shown. */
export function usePull(server: Server): Pull {
  const [name, setName] = useState('')
  const [progress, setProgress] = useState<Progress>({})
  const [isRunning, setRunning] = useState(false)

  const pull = async (model: string): Promise<void> => {
    setName(model)
    setRunning(true)
    setProgress({ status: 'asking' })
    try {
      const body = { model, stream: true }
      const response = await server.call('api/pull', { method: 'POST', body })
      for await (const line of readLines(response)) setProgress(JSON.parse(line) as Progress)
    } catch (error) {
      setProgress({ error: (error as Error).message })
    }
    setRunning(false)
  }
  return { name, progress, isRunning, start: (model) => void pull(model) }
}
