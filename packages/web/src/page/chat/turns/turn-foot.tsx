import { ChevronLeft, ChevronRight, Pencil, RefreshCw } from 'lucide'
import { CopyButton, IconButton } from '../../parts/icon.js'
import { counted, formatMs } from '../../parts/format.js'
import { useAnswer } from '../../server.js'
import { branchesOf, type Turn } from '../conversation.js'
import type { TurnProps } from './turn-view.js'
import { Quiet } from '../../parts/form.js'

/** The foot of a turn: its buttons, and an answer's figures. */
export function TurnFoot(props: TurnProps & { readonly isComing: boolean }) {
  const { turn, chat, hasFigures, isComing, onEdit } = props
  const { conversation, isBusy } = chat
  const { id, role, content, beside } = turn
  const isAnswer = role === 'assistant'
  const isOther = beside !== undefined && conversation.leaf === beside
  return (
    <div class="turn-foot">
      {content !== '' && !isComing && (
        <CopyButton text={content} name={`Copy ${isAnswer ? 'the answer' : 'the question'}`} />
      )}
      {!isAnswer && !isBusy && <IconButton icon={Pencil} name="Edit" onPress={() => onEdit(id)} />}
      {isAnswer && !isBusy && (
        <IconButton icon={RefreshCw} name="Regenerate" onPress={() => chat.regenerate(turn)} />
      )}
      {beside === undefined && <Branches turn={turn} chat={chat} />}
      {isOther && !isBusy && <Quiet onClick={() => chat.show(turn)}>Choose this answer</Quiet>}
      {isAnswer && (hasFigures || isComing) && <Figures turn={turn} isComing={isComing} />}
    </div>
  )
}

function Branches({ turn, chat }: Pick<TurnProps, 'turn' | 'chat'>) {
  const { conversation, isBusy, show } = chat
  const branches = branchesOf(conversation, turn)
  if (branches.length < 2) return null
  const at = branches.findIndex(({ id }) => id === turn.id)
  const [before, after] = [branches[at - 1], branches[at + 1]]
  return (
    <span class="branches">
      <IconButton
        icon={ChevronLeft}
        name="Branch before"
        disabled={isBusy || before === undefined}
        onPress={() => before && show(before)}
      />
      <span>
        {at + 1} of {branches.length}
      </span>
      <IconButton
        icon={ChevronRight}
        name="Branch after"
        disabled={isBusy || after === undefined}
        onPress={() => after && show(after)}
      />
    </span>
  )
}

/** An answer's figures; while it waits, its place in the queue and the predicted time. */
function Figures({ turn, isComing }: { readonly turn: Turn; readonly isComing: boolean }) {
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
  if (tokens !== undefined) parts.push(counted(tokens, 'token'))
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

/** The request's place in the queue, polled once a second while it waits. */
function usePlace(request: string | undefined, first: number | undefined): number | undefined {
  type Told = { readonly data: { readonly queue_position?: number } }
  const path = request && `requests/${request}`
  const { answer } = useAnswer<Told>(path, { everyMs: 1000 })
  return answer === undefined ? first : (answer.data.queue_position ?? 0)
}
