import { Braces, Ellipsis, FileText, type IconNode, Pencil, Pin, PinOff, Trash2 } from 'lucide'
import { useRef } from 'preact/hooks'
import type { Conversation } from '../chat/conversation.js'
import { toJson, toMarkdown } from '../chat/saved-conversations.js'
import type { Chat } from '../chat/use-chat.js'
import { download } from '../parts/download.js'
import { Icon } from '../parts/icon.js'

interface ConversationMenuProps {
  readonly one: Conversation
  readonly chat: Chat
  readonly onRename: () => void
}

/** What can be done with a conversation of the list. */
export function ConversationMenu({ one, chat, onRename }: ConversationMenuProps) {
  const menu = useRef<HTMLDetailsElement>(null)
  const close = (): void => menu.current?.removeAttribute('open')
  const isPinned = one.pinned === true
  const items: readonly (readonly [name: string, icon: IconNode, act: () => void])[] = [
    ['Rename', Pencil, onRename],
    [
      isPinned ? 'Unpin' : 'Pin',
      isPinned ? PinOff : Pin,
      () => chat.mark(one, { pinned: !isPinned }),
    ],
    ['Save Markdown', FileText, () => download(`${one.title}.md`, toMarkdown(one))],
    [
      'Save JSON',
      Braces,
      () => void toJson(one).then((json) => download(`${one.title}.json`, json)),
    ],
    ['Delete', Trash2, () => chat.remove(one)],
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
            disabled={chat.isBusy}
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
