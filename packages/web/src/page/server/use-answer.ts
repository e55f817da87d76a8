import { useEffect, useState } from 'preact/hooks'
import { isRefusal, ServerError, useServer } from './server.js'

/** When a route is asked again. */
interface Looks<T> {
  /** Milliseconds from the end of a look to the next one. Default: it is asked once. */
  readonly everyMs?: number
  /** Whether there will be something new after this answer. Default: always. */
  readonly goesOn?: (answer: T) => boolean
  /** Whatever changes when it is to be asked at once. */
  readonly again?: unknown
}

/**
 * Asks a route of the server at once and, while this part of the page is shown, again and again, until the
 * server refuses or knows nothing of it.
 *
 * @param path - undefined: nothing is asked
 * @returns what it answered last, and why it does not now
 */
export function useAnswer<T>(
  path: string | undefined,
  { everyMs, goesOn = () => true, again }: Looks<T> = {},
) {
  const server = useServer()
  const [answer, setAnswer] = useState<T>()
  const [problem, setProblem] = useState<string>()
  useEffect(() => {
    if (path === undefined) return
    const leaving = new AbortController()
    const { signal } = leaving
    let timer: ReturnType<typeof setTimeout> | undefined
    const look = async (): Promise<boolean> => {
      try {
        const next = await server.json<T>(path, { signal })
        setAnswer(() => next)
        setProblem(undefined)
        return goesOn(next)
      } catch (error) {
        if (signal.aborted) return false
        setProblem((error as Error).message)
        return !isRefusal(error) && !(error instanceof ServerError && error.status === 404)
      }
    }
    const keepLooking = async (): Promise<void> => {
      const isOpen = await look()
      if (isOpen && everyMs !== undefined && !signal.aborted) {
        timer = setTimeout(() => void keepLooking(), everyMs)
      }
    }
    void keepLooking()
    return () => {
      leaving.abort()
      clearTimeout(timer)
    }
  }, [server, path, again])
  return { answer, problem }
}

/** A route's path with the model that it is about; empty: the server's default. */
export const ofModel = (path: string, model: string): string =>
  model === '' ? path : `${path}?model=${encodeURIComponent(model)}`
