import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { download } from '../parts/download.js'
import { Form } from '../parts/form.js'
import { type Conversation, shownTurns } from './conversation.js'
import { keepSettings, readSettings, withAnswerLimit } from './settings.js'
import { SettingsForm } from './settings-form.js'
import { toMarkdown } from './to-markdown.js'
import { TurnView } from './turn-view.js'
import { type Chat, useChat } from './use-chat.js'
import { useServer } from '../server/server.js'

/** The chat: conversations kept in this browser, answered by the server. */
export function ChatPage({ models }: { readonly models: readonly string[] }): JSX.Element {
  const server = useServer()
  const [settings, setSettings] = useState(readSettings)
  const chat = useChat(server, withAnswerLimit(settings, models))
  const { conversation, coming } = chat
  const turns = shownTurns(conversation)
  const end = useRef<HTMLDivElement>(null)
  useFollowing(end, conversation)
  return (
    <div class="chat">
      <History chat={chat} />
      <section class="talk" aria-label="Conversation">
        <h1 class="sr-only">Chat</h1>
        {turns.length === 0 && <p class="hint">Ask something. Nothing leaves this server.</p>}
        <ol class="turns">
          {turns.map((turn) => (
            <TurnView
              key={turn.id}
              {...{ turn, conversation }}
              isComing={turn.id === coming}
              isBusy={coming !== undefined}
              edit={chat.edit}
              giveResults={chat.giveResults}
              regenerate={chat.regenerate}
              show={chat.show}
            />
          ))}
        </ol>
        <div ref={end} />
        <p class="sr-only" role="status">
          {coming === undefined ? '' : 'An answer is coming'}
        </p>
        <Composer chat={chat} />
        <SettingsForm
          {...{ settings, models }}
          onChange={(next) => {
            setSettings(next)
            keepSettings(next)
          }}
        />
      </section>
    </div>
  )
}

/** Keeps the end in view while an answer comes, unless its reader has scrolled away from it. */
function useFollowing(
  end: { readonly current: HTMLElement | null },
  conversation: Conversation,
): void {
  useEffect(() => {
    const { scrollHeight } = document.documentElement
    const isNear = scrollHeight - window.scrollY - window.innerHeight < 240
    if (isNear) end.current?.scrollIntoView({ block: 'end' })
  }, [conversation])
}

function Composer({ chat }: { readonly chat: Chat }): JSX.Element {
  const [text, setText] = useState('')
  const isBusy = chat.coming !== undefined
  const send = (): void => {
    if (isBusy || text.trim() === '') return
    chat.send(text)
    setText('')
  }
  return (
    <Form class="composer" onSend={send}>
      <textarea
        aria-label="Message"
        placeholder="Message; Enter sends it, Shift and Enter begin a new line"
        rows={3}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
          event.preventDefault()
          send()
        }}
      />
      {isBusy ? (
        <button type="button" class="stop" onClick={chat.stop}>
          Stop
        </button>
      ) : (
        <button type="submit" disabled={text.trim() === ''}>
          Send
        </button>
      )}
    </Form>
  )
}

function History({ chat }: { readonly chat: Chat }): JSX.Element {
  const { conversation, others, coming } = chat
  return (
    <details class="history" open={window.matchMedia('(min-width: 50rem)').matches}>
      <summary>History</summary>
      <div class="buttons">
        <button onClick={() => chat.open(undefined)}>New chat</button>
        <button
          class="quiet"
          disabled={conversation.leaf === null}
          onClick={() => download(`${conversation.title}.md`, toMarkdown(conversation))}
        >
          Export Markdown
        </button>
        <button
          class="quiet"
          disabled={conversation.leaf === null}
          onClick={() =>
            download(`${conversation.title}.json`, JSON.stringify(conversation, null, 2))
          }
        >
          Export JSON
        </button>
      </div>
      <ul>
        {others.map((other) => (
          <li key={other.id}>
            <button
              class="quiet title"
              aria-current={other.id === conversation.id}
              disabled={coming !== undefined}
              onClick={() => chat.open(other)}
            >
              {other.title}
            </button>
            <button
              class="quiet"
              aria-label={`Delete ${other.title}`}
              disabled={coming !== undefined}
              onClick={() => chat.remove(other)}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
    </details>
  )
}
