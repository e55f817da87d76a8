import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Markdown } from '../markdown/markdown.js'
import { type Conversation, branchesOf, type ToolCall, type Turn } from './conversation.js'
import { Figures } from './figures.js'

/** What can be done with a turn. */
export interface TurnActions {
  readonly edit: (turn: Turn, text: string) => void
  readonly regenerate: (turn: Turn) => void
  readonly show: (branch: Turn) => void
}

interface TurnProps extends TurnActions {
  readonly turn: Turn
  readonly conversation: Conversation
  /** Whether it is coming now. */
  readonly isComing: boolean
  /** Whether any answer is coming, so that no other can be asked for. */
  readonly isBusy: boolean
}

/** One message, with what the model thought and called, its figures and its branches. */
export function TurnView(props: TurnProps): JSX.Element {
  const { turn, conversation, isComing, isBusy, edit, regenerate, show } = props
  const [draft, setDraft] = useState<string>()
  const isUser = turn.role === 'user'
  const branches = branchesOf(conversation, turn)
  return (
    <li class={`turn ${turn.role}`} aria-busy={isComing}>
      <h2 class="who">{isUser ? 'You' : (turn.model ?? 'Answer')}</h2>
      {draft === undefined ? (
        <Content turn={turn} isComing={isComing} />
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault()
            setDraft(undefined)
            edit(turn, draft)
          }}
        >
          <textarea
            aria-label="Edit the message"
            rows={4}
            value={draft}
            onInput={(event) => setDraft(event.currentTarget.value)}
          />
          <button type="submit">Send</button>
          <button type="button" class="quiet" onClick={() => setDraft(undefined)}>
            Cancel
          </button>
        </form>
      )}
      {turn.problem !== undefined && (
        <p class="problem" role="alert">
          {turn.problem}
        </p>
      )}
      <div class="turn-foot">
        {!isUser && <Figures turn={turn} isComing={isComing} />}
        <Branches turn={turn} branches={branches} isBusy={isBusy} show={show} />
        {isUser && draft === undefined && (
          <button class="quiet" disabled={isBusy} onClick={() => setDraft(turn.content)}>
            Edit
          </button>
        )}
        {!isUser && (
          <button class="quiet" disabled={isBusy} onClick={() => regenerate(turn)}>
            Regenerate
          </button>
        )}
      </div>
    </li>
  )
}

function Content({ turn, isComing }: Pick<TurnProps, 'turn' | 'isComing'>): JSX.Element {
  const { role, content, reasoning = '', calls = [] } = turn
  if (role === 'user') return <p class="question">{content}</p>
  return (
    <>
      {reasoning !== '' && (
        <details class="thinking">
          <summary>{isComing && content === '' ? 'Thinking …' : 'Thoughts'}</summary>
          <Markdown text={reasoning} />
        </details>
      )}
      {content !== '' && <Markdown text={content} />}
      {calls.map((call) => (
        <Call key={call.id} call={call} />
      ))}
    </>
  )
}

function Call({ call }: { readonly call: ToolCall }): JSX.Element {
  return (
    <details class="call" open>
      <summary>
        Calls <code>{call.name}</code>
      </summary>
      <pre tabIndex={0} role="region" aria-label={`Arguments of ${call.name}`}>
        {pretty(call.arguments)}
      </pre>
    </details>
  )
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json // it is still coming
  }
}

function Branches({
  turn,
  branches,
  isBusy,
  show,
}: {
  readonly turn: Turn
  readonly branches: readonly Turn[]
  readonly isBusy: boolean
  readonly show: (branch: Turn) => void
}): JSX.Element | null {
  if (branches.length < 2) return null
  const at = branches.findIndex(({ id }) => id === turn.id)
  const [before, after] = [branches[at - 1], branches[at + 1]]
  return (
    <span class="branches">
      <button
        class="quiet"
        aria-label="Branch before"
        disabled={isBusy || before === undefined}
        onClick={() => before && show(before)}
      >
        ‹
      </button>
      <span>
        {at + 1} of {branches.length}
      </span>
      <button
        class="quiet"
        aria-label="Branch after"
        disabled={isBusy || after === undefined}
        onClick={() => after && show(after)}
      >
        ›
      </button>
    </span>
  )
}
