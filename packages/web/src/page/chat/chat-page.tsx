import { Columns2, SlidersHorizontal, SquarePen } from 'lucide'
import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Quiet, Select } from '../parts/form.js'
import { IconButton } from '../parts/icon.js'
import { Bar } from '../shell/bar.js'
import { Composer } from './compose/composer.js'
import type { Modality } from './compose/attachment.js'
import { answersBeside, type Conversation, shownTurns, type Turn } from './conversation.js'
import type { ChatSettings } from './settings/settings.js'
import { SettingsForm, settingsId } from './settings/settings-form.js'
import { readPresets, systemName } from './settings/system-form.js'
import { TurnView } from './turns/turn-view.js'
import type { Chat } from './chat-store.js'

const suggestions = [
  'Tell me a short story about a dog.',
  'Write a haiku about the sea.',
  'Explain what a KV cache is to a beginner.',
  'Write a function that reverses a string.',
]

interface ChatPageProps {
  readonly chat: Chat
  readonly settings: ChatSettings
  readonly models: readonly string[]
  /** The inputs that each model takes, if they are known. */
  readonly inputs: ReadonlyMap<string, readonly Modality[] | undefined>
  /** Whether the server still starts. */
  readonly isLoading: boolean
  readonly isShown: boolean
  readonly onSettings: (settings: ChatSettings) => void
  readonly onNew: () => void
  /** The field in which questions are written. */
  readonly field: RefObject<HTMLTextAreaElement | null>
}

/** The chat: conversations kept in this browser, answered by the server. */
export function ChatPage(props: ChatPageProps) {
  const { chat, settings, models, inputs, isShown, onSettings, onNew, field } = props
  const name = models[0] === undefined ? 'The server' : settings.model || models[0]
  const { conversation, isBusy } = chat
  const [edited, setEdited] = useState<string>()
  const end = useRef<HTMLDivElement>(null)
  useFollowing(end, conversation)
  useEffect(() => {
    const { system } = conversation
    if (system !== undefined && system !== settings.system) onSettings({ ...settings, system })
  }, [conversation.id])
  const turns = shownTurns(conversation)
  const lastQuestion = turns.findLast(({ role }) => role === 'user')
  const names = models.map((model, index) => [index === 0 ? '' : model, model] as const)
  const isCompared = settings.compare === 'on'
  const isWide = turns.some((turn) => turn.beside !== undefined)
  const view = (turn: Turn) => (
    <TurnView
      key={turn.id}
      {...{ turn, chat, hasFigures: settings.figures !== 'hidden' }}
      isEdited={edited === turn.id}
      onEdit={setEdited}
    />
  )
  return (
    <>
      <Bar title="Chat" isShown={isShown} isTitleHidden={models.length > 0}>
        {models.length > 0 && (
          <Select
            label="Model"
            isLabelHidden
            value={settings.model}
            options={names}
            onChoose={(model) => onSettings({ ...settings, model })}
          />
        )}
        <span class="push" />
        <IconButton
          icon={Columns2}
          name="Compare two answers"
          pressed={isCompared}
          onPress={() => onSettings({ ...settings, compare: isCompared ? '' : 'on' })}
        />
        <IconButton icon={SlidersHorizontal} name="Settings" popovertarget={settingsId} />
        <IconButton
          class="bare menu-button"
          icon={SquarePen}
          name="Start a new chat"
          onPress={onNew}
        />
      </Bar>
      <section class="chat" aria-label="Conversation">
        {turns.length === 0 ? (
          <div class="talk welcome">
            <p class="greeting">What would you like to know?</p>
            <p class="hint">
              {props.isLoading ? 'The model is loading.' : `${name} answers.`} Nothing leaves this
              server.
            </p>
            <div class="suggestions">
              {suggestions.map((text) => (
                <Quiet key={text} onClick={() => chat.send(text)}>
                  {text}
                </Quiet>
              ))}
            </div>
          </div>
        ) : (
          <ol class={`talk turns ${isWide ? 'wide' : ''}`}>
            {turns.map((turn) => {
              const beside = answersBeside(conversation, turn)
              if (beside.length === 1) return view(turn)
              return (
                <li key={beside[0]?.id}>
                  <ol class="turns beside">{beside.map(view)}</ol>
                </li>
              )
            })}
          </ol>
        )}
        <p class="sr-only" role="status">
          {isBusy ? 'An answer is coming' : ''}
        </p>
        <Composer
          {...{ chat, field }}
          model={settings.model}
          inputs={inputs.get(settings.model || (models[0] ?? ''))}
          system={systemName(settings.system, readPresets())}
          onEditLast={() => lastQuestion && !isBusy && setEdited(lastQuestion.id)}
        />
        <div ref={end} />
      </section>
      <SettingsForm settings={settings} models={names} onChange={onSettings} />
    </>
  )
}

/** Scrolls to the end of a conversation that is opened, with each new turn, and while an answer streams in, unless the reader has scrolled away. */
function useFollowing(end: RefObject<HTMLElement | null>, conversation: Conversation): void {
  const before = useRef(conversation)
  useEffect(() => {
    const { scrollHeight } = document.documentElement
    const isNear = scrollHeight - window.scrollY - window.innerHeight < 240
    const { id, turns } = before.current
    before.current = conversation
    const isNew = conversation.id !== id || conversation.turns.length > turns.length
    if (isNear || isNew) end.current?.scrollIntoView({ block: 'end' })
  }, [conversation])
}
