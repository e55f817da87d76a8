import {
  Braces,
  Ellipsis,
  FileText,
  type IconNode,
  Pencil,
  Pin,
  PinOff,
  Search,
  SquarePen,
  Trash2,
  Upload as UploadIcon,
} from 'lucide'
import { useRef, useState } from 'preact/hooks'
import type { Conversation } from '../chat/conversation.js'
import type { Chat } from '../chat/chat-store.js'
import { Form, Input, Quiet, Upload } from '../parts/form.js'
import { Icon, IconButton } from '../parts/icon.js'
import { toJson, toMarkdown } from '../chat/saved-conversations.js'
import { download } from '../parts/download.js'

interface ConversationsProps {
  readonly chat: Chat
  readonly onNew: () => void
  readonly onOpen: (conversation: Conversation) => void
}

/** The conversations that this browser keeps: found, opened, named, pinned, saved and deleted. */
export function Conversations({ chat, onNew, onOpen }: ConversationsProps) {
  const [isSearching, setSearching] = useState(false)
  const [sought, setSought] = useState('')
  const found = chat.others.filter((each) => isAbout(each, sought))
  const groups = Map.groupBy(found, (each) => ageOf(each, Date.now()))
  return (
    <section class="conversations" aria-label="Conversations">
      <div class="tools">
        <Quiet class="quiet new" title="New chat (Ctrl+K)" onClick={onNew}>
          <Icon of={SquarePen} /> New chat
        </Quiet>
        <IconButton
          icon={Search}
          name="Search"
          pressed={isSearching}
          onPress={() => {
            setSearching(!isSearching)
            setSought('')
          }}
        />
        <Upload
          icon={UploadIcon}
          name="Import a conversation"
          accept=".json"
          onChosen={(files) => void chat.take(files)}
        />
      </div>
      {isSearching && (
        <Input
          type="search"
          aria-label="Search conversations"
          placeholder="Titles and texts"
          autofocus
          value={sought}
          onText={setSought}
        />
      )}
      <div class="list" tabIndex={-1}>
        {found.length === 0 && sought !== '' && <p class="hint">No chat has “{sought}” in it.</p>}
        {[...groups].map(([age, each]) => (
          <section key={age} aria-label={age}>
            <h2>{age}</h2>
            <ul>
              {each.map((one) => (
                <Entry key={one.id} {...{ one, chat }} onOpen={() => onOpen(one)} />
              ))}
            </ul>
          </section>
        ))}
      </div>
    </section>
  )
}

interface EntryProps {
  readonly one: Conversation
  readonly chat: Chat
  readonly onOpen: () => void
}

function Entry({ one, chat, onOpen }: EntryProps) {
  const [name, setName] = useState<string>()
  const end = (): void => setName(undefined)
  return (
    <li aria-current={one.id === chat.conversation.id}>
      {name === undefined ? (
        <button
          type="button"
          class="bare title"
          title={one.title}
          disabled={chat.isBusy}
          onClick={onOpen}
        >
          {one.title}
        </button>
      ) : (
        <Form
          onSend={() => {
            if (name.trim() !== '') chat.mark(one, { title: name.trim() })
            end()
          }}
        >
          <Input
            aria-label={`Name of ${one.title}`}
            autofocus
            value={name}
            onText={setName}
            onEscape={(event) => {
              event.preventDefault() // what the list is in stays open
              end()
            }}
          />
        </Form>
      )}
      {one.pinned === true && <Icon of={Pin} />}
      <ConversationMenu {...{ one, chat }} onRename={() => setName(one.title)} />
    </li>
  )
}

/** Whether all the words are in its title or its turns. */
function isAbout({ title, turns }: Conversation, words: string): boolean {
  const text = [title, ...turns.map(({ content }) => content)].join('\n').toLowerCase()
  const sought = words.toLowerCase().split(/\s+/)
  return sought.every((word) => text.includes(word))
}

const dayMs = 86_400_000

/** The heading that a conversation is listed under, at a time. */
function ageOf({ changedAt, pinned }: Conversation, now: number): string {
  if (pinned === true) return 'Pinned'
  const today = new Date(now).setHours(0, 0, 0, 0)
  if (changedAt >= today) return 'Today'
  if (changedAt >= today - dayMs) return 'Yesterday'
  return changedAt >= today - 7 * dayMs ? 'Last 7 days' : 'Older'
}

interface ConversationMenuProps extends Pick<EntryProps, 'one' | 'chat'> {
  readonly onRename: () => void
}

/** What can be done with a conversation of the list. */
function ConversationMenu({ one, chat, onRename }: ConversationMenuProps) {
  const menu = useRef<HTMLDetailsElement>(null)
  const close = (): void => menu.current?.removeAttribute('open')
  const isPinned = one.pinned === true
  const pin = isPinned ? (['Unpin', PinOff] as const) : (['Pin', Pin] as const)
  const saveJson = async (): Promise<void> => download(`${one.title}.json`, await toJson(one))
  const items: readonly (readonly [name: string, icon: IconNode, act: () => void])[] = [
    ['Rename', Pencil, onRename],
    [...pin, () => chat.mark(one, { pinned: !isPinned })],
    ['Save Markdown', FileText, () => download(`${one.title}.md`, toMarkdown(one))],
    ['Save JSON', Braces, () => void saveJson()],
    ['Delete', Trash2, () => void chat.remove(one)],
  ]
  return (
    <details
      ref={menu}
      class="menu"
      onFocusOut={({ relatedTarget }) => {
        if (menu.current?.contains(relatedTarget as Node | null) !== true) close()
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || menu.current?.open !== true) return
        event.stopPropagation()
        event.preventDefault() // what the list is in stays open
        close()
        menu.current.querySelector('summary')?.focus()
      }}
    >
      <summary class="button bare" aria-label={`More of ${one.title}`}>
        <Icon of={Ellipsis} />
      </summary>
      <div class="items">
        {items.map(([name, icon, act]) => (
          <button
            key={name}
            type="button"
            class="bare"
            onClick={() => {
              close()
              act()
            }}
          >
            <Icon of={icon} /> {name}
          </button>
        ))}
      </div>
    </details>
  )
}
