import type { JSX } from 'preact'
import { formatMs } from '../../parts/format.js'
import type { Turn } from '../conversation.js'
import { useAnswer } from '../../server/use-answer.js'

/** How an answer came; while it waits, its place in the queue and the time that was predicted. */
export function Figures({
  turn,
  isComing,
}: {
  readonly turn: Turn
  readonly isComing: boolean
}): JSX.Element {
  const { figures = {}, request } = turn
  const { firstTokenMs, tokensPerSecond, promptTokens, cachedTokens, tokens, predictedMs } = figures
  const isWaiting = isComing && firstTokenMs === undefined
  const place = usePlace(isWaiting ? request : undefined, figures.place)
  if (isWaiting) {
    return (
      <span class="figures" role="status">
        {place === undefined || place === 0 ? 'Waiting' : `Number ${place} in the queue`}
        {predictedMs !== undefined && `, first token in about ${formatMs(predictedMs)}`}
      </span>
    )
  }
  const parts: string[] = []
  if (firstTokenMs !== undefined) parts.push(`TTFT ${formatMs(firstTokenMs)}`)
  if (predictedMs !== undefined) parts.push(`predicted ${formatMs(predictedMs)}`)
  if (tokensPerSecond !== undefined) parts.push(`${tokensPerSecond.toFixed(1)} tokens/s`)
  if (tokens !== undefined) parts.push(`${tokens} tokens`)
  if (cachedTokens !== undefined) parts.push(`${cachedTokens} of ${promptTokens ?? 0} cached`)
  return (
    <span class="figures">
      {parts.join(' · ')}
      {request !== undefined && !isComing && (
        <>
          {' · '}
          <a href={`#scheduler/${request}`}>why</a>
        </>
      )}
    </span>
  )
}

/** The place in the queue, asked for once a second while a request waits. */
function usePlace(request: string | undefined, first: number | undefined): number | undefined {
  type Told = { readonly data: { readonly queue_position?: number } }
  const path = request && `requests/${request}`
  const { answer } = useAnswer<Told>(path, { everyMs: 1000 })
  return answer === undefined ? first : (answer.data.queue_position ?? 0)
}
