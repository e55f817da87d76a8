import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Markdown } from '../markdown/markdown.js'
import { Form, Problem } from '../parts/form.js'
import { type Conversation, branchesOf, type ToolResult, type Turn } from './conversation.js'
import { Figures } from './figures.js'
import { cutOffText } from './to-markdown.js'
import { Call, Results, ResultsForm } from './tool-calls.js'

/** What can be done with a turn. */
export interface TurnActions {
  readonly edit: (turn: Turn, text: string) => void
  readonly giveResults: (calls: string, results: readonly ToolResult[]) => void
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
  const { turn, conversation, isComing, isBusy, regenerate, show } = props
  const [isEdited, setEdited] = useState(false)
  const { role, calls = [], finish, problem } = turn
  const branches = branchesOf(conversation, turn)
  const isAnswer = role === 'assistant'
  const isOpen = conversation.leaf === turn.id && calls.length > 0 && !isComing
  return (
    <li class={`turn ${role}`} aria-busy={isComing}>
      <h2 class="who">{isAnswer ? (turn.model ?? 'Answer') : 'You'}</h2>
      {isEdited ? (
        <Edit {...props} onEnd={() => setEdited(false)} />
      ) : (
        <Content turn={turn} isComing={isComing} />
      )}
      {isOpen && (
        <ResultsForm
          calls={calls}
          isBusy={isBusy}
          onSend={(results) => props.giveResults(turn.id, results)}
        />
      )}
      {finish === 'length' && <p class="hint">{cutOffText}</p>}
      <Problem text={problem} />
      <div class="turn-foot">
        {isAnswer && <Figures turn={turn} isComing={isComing} />}
        <Branches turn={turn} branches={branches} isBusy={isBusy} show={show} />
        {!isAnswer && !isEdited && (
          <button class="quiet" disabled={isBusy} onClick={() => setEdited(true)}>
            Edit
          </button>
        )}
        {isAnswer && (
          <button class="quiet" disabled={isBusy} onClick={() => regenerate(turn)}>
            Regenerate
          </button>
        )}
      </div>
    </li>
  )
}

/** Another question, or other results, in the place of this turn's. */
function Edit(props: TurnProps & { readonly onEnd: () => void }): JSX.Element {
  const { turn, conversation, isBusy, edit, giveResults, onEnd } = props
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
      onSend={() => {
        onEnd()
        edit(turn, draft)
      }}
    >
      <textarea
        aria-label="Edit the message"
        rows={4}
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
      />
      <div class="buttons">
        <button type="submit">Send</button>
        <button type="button" class="quiet" onClick={onEnd}>
          Cancel
        </button>
      </div>
    </Form>
  )
}

function Content({ turn, isComing }: Pick<TurnProps, 'turn' | 'isComing'>): JSX.Element {
  const { role, content, reasoning = '', calls = [], results = [] } = turn
  if (role === 'tool') return <Results results={results} />
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
      {calls.map((call, index) => (
        <Call key={index} call={call} />
      ))}
    </>
  )
}

function Branches({
  turn,
  branches,
  isBusy,
  show,
}: Pick<TurnProps, 'turn' | 'isBusy' | 'show'> & {
  readonly branches: readonly Turn[]
}): JSX.Element | null {
  if (branches.length < 2) return null
  const at = branches.findIndex(({ id }) => id === turn.id)
  const stepTo = (branch: Turn | undefined, label: string, sign: string): JSX.Element => (
    <button
      class="quiet"
      aria-label={label}
      disabled={isBusy || branch === undefined}
      onClick={() => branch && show(branch)}
    >
      {sign}
    </button>
  )
  return (
    <span class="branches">
      {stepTo(branches[at - 1], 'Branch before', '‹')}
      <span>
        {at + 1} of {branches.length}
      </span>
      {stepTo(branches[at + 1], 'Branch after', '›')}
    </span>
  )
}
