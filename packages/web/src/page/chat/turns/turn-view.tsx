import { Markdown } from '../../markdown/markdown.js'
import { Buttons, focus, Form, Problem, Quiet } from '../../parts/form.js'
import { Media, Thumbnail } from '../compose/attachment.js'
import { isMedia, type Turn } from '../conversation.js'
import { cutOffText } from '../saved-conversations.js'
import type { Chat } from '../chat-store.js'
import { Call, Results, ResultsForm } from './tool-calls.js'
import { TurnFoot } from './turn-foot.js'
import { useState } from 'preact/hooks'

/** A turn, and its chat. */
export interface TurnProps {
  readonly turn: Turn
  readonly chat: Chat
  /** Whether times and counts are shown. */
  readonly hasFigures: boolean
  readonly isEdited: boolean
  /** Opens the editor for the turn of this id; undefined closes it. */
  readonly onEdit: (id: string | undefined) => void
}

/** One message, with the model's reasoning and tool calls, its figures and its branches. */
export function TurnView(props: TurnProps) {
  const { turn, chat, isEdited, onEdit } = props
  const { conversation, isBusy } = chat
  const { id, role, calls = [], finish, problem } = turn
  const isAnswer = role === 'assistant'
  const isComing = chat.coming.has(id)
  const isOpen = conversation.leaf === id && calls.length > 0 && !isComing
  const kind = [role, isComing && 'coming', conversation.leaf === id && 'chosen']
  return (
    <li class={`turn ${kind.filter(Boolean).join(' ')}`} aria-busy={isComing}>
      <h2 class={isAnswer ? 'who' : 'sr-only'}>{isAnswer ? (turn.model ?? 'Answer') : 'You'}</h2>
      {isEdited ? (
        <EditTurn {...{ turn, chat }} onEnd={() => onEdit(undefined)} />
      ) : (
        <Content turn={turn} isComing={isComing} />
      )}
      {isOpen && (
        <ResultsForm
          calls={calls}
          isBusy={isBusy}
          onSend={(results) => chat.giveResults(id, results)}
        />
      )}
      {finish === 'length' && !isComing && (
        <p class="hint">
          {cutOffText}.{' '}
          <Quiet disabled={isBusy} onClick={() => chat.goOn(turn)}>
            Continue
          </Quiet>
        </p>
      )}
      <Problem text={isComing ? undefined : problem} />
      {!isEdited && <TurnFoot {...props} isComing={isComing} />}
    </li>
  )
}

function Content({ turn, isComing }: { readonly turn: Turn; readonly isComing: boolean }) {
  const { role, content, files = [], reasoning = '', calls = [], results = [] } = turn
  if (role === 'tool') return <Results results={results} />
  if (role === 'user') {
    return (
      <>
        {files.map((file, index) =>
          isMedia(file) ? (
            <Media key={index} file={file} />
          ) : (
            <details class="file" key={index}>
              <summary class="chip">
                <Thumbnail file={file} />
                <span>{file.name}</span>
              </summary>
              <pre tabIndex={0} role="region" aria-label={file.name}>
                {file.text}
              </pre>
            </details>
          ),
        )}
        {content !== '' && <p class="question">{content}</p>}
      </>
    )
  }
  return (
    <>
      {reasoning !== '' && (
        <details class="thinking">
          <summary>{isComing && content === '' ? 'Thinking …' : 'Thoughts'}</summary>
          <Markdown text={reasoning} isComing={isComing} />
        </details>
      )}
      {content !== '' && <Markdown text={content} isComing={isComing} />}
      {calls.map((call, index) => (
        <Call key={index} call={call} />
      ))}
    </>
  )
}

interface EditTurnProps extends Pick<TurnProps, 'turn' | 'chat'> {
  readonly onEnd: () => void
}

/** An editor for a question or tool results; sending makes a new branch beside this turn. */
function EditTurn({ turn, chat, onEnd }: EditTurnProps) {
  const { conversation, isBusy, edit, giveResults } = chat
  const [draft, setDraft] = useState(turn.content)
  const before = conversation.turns.find(({ id }) => id === turn.parent)
  if (turn.role === 'tool' && before !== undefined) {
    return (
      <ResultsForm
        calls={before.calls ?? []}
        known={turn.results ?? []}
        isBusy={isBusy}
        onCancel={onEnd}
        onSend={(results) => {
          onEnd()
          giveResults(before.id, results)
        }}
      />
    )
  }
  return (
    <Form
      aria-label="Another question"
      onSend={() => {
        onEnd()
        edit(turn, draft)
      }}
    >
      <textarea
        ref={focus}
        aria-label="Edit the message"
        rows={3}
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => event.key === 'Escape' && onEnd()}
      />
      <Buttons send="Send">
        <Quiet onClick={onEnd}>Cancel</Quiet>
      </Buttons>
    </Form>
  )
}
