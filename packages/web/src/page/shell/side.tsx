import {
  Activity,
  Boxes,
  ChartColumn,
  FlaskConical,
  type IconNode,
  KeyRound,
  MessageSquare,
  Monitor,
  Moon,
  Sun,
} from 'lucide'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Chat } from '../chat/chat-store.js'
import { Icon, IconButton } from '../parts/icon.js'
import { isOff } from '../parts/switched-off.js'
import { sideId } from './bar.js'
import { Conversations } from './conversations.js'

/** The pages, by what the address has after `#`. */
export const pages = [
  ['chat', 'Chat', MessageSquare],
  ['scheduler', 'Scheduler', Activity],
  ['lab', 'Lab', FlaskConical],
  ['models', 'Models', Boxes],
  ['keys', 'Keys', KeyRound],
  ['usage', 'Usage', ChartColumn],
] as const satisfies readonly (readonly [id: string, title: string, icon: IconNode])[]

/** A page's id. */
export type PageId = (typeof pages)[number][0]

interface SideProps {
  readonly page: PageId
  readonly chat: Chat
  readonly onNew: () => void
}

/** What is beside all pages: the way to each of them, and the conversations. */
export function Side({ page, chat, onNew }: SideProps) {
  const side = useRef<HTMLElement>(null)
  const leave = (): void => side.current?.hidePopover()
  return (
    <aside ref={side} id={sideId} class="side" popover="auto" aria-label="Pages and conversations">
      <div class="brand">
        <img src="./icon.svg" alt="" /> cLLM
      </div>
      <nav aria-label="Pages">
        {pages.map(([id, title, icon]) => (
          <a
            key={id}
            class={isOff(id) ? 'off' : undefined}
            href={`#${id}`}
            aria-current={id === page ? 'page' : undefined}
            onClick={leave}
          >
            <Icon of={icon} />
            {title}
          </a>
        ))}
      </nav>
      <Conversations
        chat={chat}
        onNew={() => {
          leave()
          onNew()
        }}
        onOpen={(conversation) => {
          leave()
          location.hash = 'chat'
          chat.open(conversation)
        }}
      />
      <ThemeChoice />
    </aside>
  )
}

const name = 'cllm-theme'

const themes = [
  ['system', 'As the system', Monitor],
  ['light', 'Light', Sun],
  ['dark', 'Dark', Moon],
] as const

/** Light, dark, or as the system is. */
function ThemeChoice() {
  const [theme, setTheme] = useState(() => localStorage.getItem(name) ?? 'system')
  useEffect(() => {
    const system = matchMedia('(prefers-color-scheme: dark)')
    const apply = (): void => {
      const own = system.matches ? 'dark' : 'light'
      document.documentElement.dataset['theme'] = theme === 'system' ? own : theme
    }
    apply()
    system.addEventListener('change', apply)
    return () => system.removeEventListener('change', apply)
  }, [theme])
  return (
    <div class="theme" role="group" aria-label="Colours">
      {themes.map(([id, title, icon]) => (
        <IconButton
          key={id}
          icon={icon}
          name={title}
          pressed={theme === id}
          onPress={() => {
            setTheme(id)
            localStorage.setItem(name, id)
          }}
        />
      ))}
    </div>
  )
}
