import { useState } from 'preact/hooks'
import { Form, Quiet } from '../../parts/form.js'
import type { Turn } from '../conversation.js'
import type { Chat } from '../use-chat.js'
import { ResultsForm } from './tool-calls.js'

const focus = (element: HTMLElement | null): void => element?.focus()

interface EditTurnProps {
  readonly turn: Turn
  readonly chat: Chat
  readonly onEnd: () => void
}

/** Another question, or other results, in the place of this turn's. */
export function EditTurn({
  turn,
  chat: { conversation, isBusy, edit, giveResults },
  onEnd,
}: EditTurnProps) {
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
      <div class="buttons">
        <button type="submit">Send</button>
        <Quiet onClick={onEnd}>Cancel</Quiet>
      </div>
    </Form>
  )
}
