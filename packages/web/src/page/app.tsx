import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ChatPage } from './chat/chat-page.js'
import type { Modality } from './chat/compose/attachment.js'
import { allSettings, keepSettings, readSettings } from './chat/settings/settings.js'
import type { ChatSettings } from './chat/settings/settings.js'
import { type Asking, type Chat, createChat } from './chat/chat-store.js'
import { KeyForm, Toast } from './shell/messages.js'
import { KeysPage } from './keys/keys-page.js'
import { LabPage } from './lab/lab-page.js'
import { ModelsPage } from './models/models-page.js'
import { usePull } from './models/pull-form.js'
import { isOff, SwitchedOff } from './parts/switched-off.js'
import { SchedulerPage } from './scheduler/scheduler-page.js'
import { Server, ServerContext, ServerError, useAnswer } from './server.js'
import { type PageId, pages, Side } from './shell/side.js'
import { UsagePage } from './usage/usage-page.js'

/** Reads the address after `#`: a page, and perhaps a detail to show on it. */
function useAddress(): { readonly page: PageId; readonly detail: string | undefined } {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const read = (): void => setHash(location.hash)
    addEventListener('hashchange', read)
    return () => removeEventListener('hashchange', read)
  }, [])
  const [name, detail] = hash.slice(1).split('/')
  const page = pages.find(([each]) => each === name)?.[0] ?? 'chat'
  return { page, detail }
}

/** The whole page. */
export function App() {
  const [refusal, setRefusal] = useState<ServerError>()
  /** Replaced with each new key, so that requests that were refused with the old key are sent again. */
  const [server, setServer] = useState(() => new Server(setRefusal))
  const { page, detail } = useAddress()
  const { names: models, inputs, isLoading } = useModels(server, page)
  const pull = usePull(server)
  const [settings, setSettings] = useState(readSettings)
  const chat = useChat({ server, settings: allSettings(settings, models), models })
  const field = useRef<HTMLTextAreaElement>(null)
  const main = useRef<HTMLElement>(null)
  const startNew = (): void => {
    location.hash = 'chat'
    chat.open(undefined)
    field.current?.focus()
  }
  useKeys(chat, startNew)
  useKeptFocus()
  // An editor of a question, and a form of tool results, are gone when they are sent.
  const asked = chat.conversation.turns.findLast(({ role }) => role !== 'assistant')
  useEffect(() => {
    // Not on a phone, whose keyboard would cover the page.
    if (page === 'chat' && !matchMedia('(pointer: coarse)').matches) field.current?.focus()
  }, [page, chat.conversation.id, asked?.id, server])
  const change = (next: ChatSettings): void => {
    setSettings(next)
    keepSettings(next)
  }
  return (
    <ServerContext.Provider value={server}>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault()
          main.current?.focus()
        }}
      >
        Skip to the page
      </a>
      <Side {...{ page, chat }} onNew={startNew} />
      <main id="main" class="page" ref={main} tabIndex={-1}>
        {refusal !== undefined && (
          <KeyForm
            refusal={refusal}
            onKey={async (key) => {
              await server.takeKey(key)
              setRefusal(undefined)
              setServer(new Server(setRefusal))
            }}
            onLater={() => setRefusal(undefined)}
          />
        )}
        {/* An answer goes on coming while another page is shown. */}
        <div class="page" hidden={page !== 'chat'}>
          <ChatPage
            {...{ chat, settings, models, inputs, isLoading, field }}
            isShown={page === 'chat'}
            onSettings={change}
            onNew={startNew}
          />
        </div>
        {page === 'models' && <ModelsPage pull={pull} />}
        {page === 'keys' && !isOff(page) && <KeysPage />}
        {page === 'usage' && !isOff(page) && <UsagePage />}
        {isOff(page) && <SwitchedOff feature={page} />}
        {page === 'lab' && <LabPage />}
        {page === 'scheduler' && <SchedulerPage models={models} request={detail} />}
      </main>
      {chat.notice !== undefined && <Toast notice={chat.notice} onEnd={chat.dismiss} />}
    </ServerContext.Provider>
  )
}

/** The chat, drawn again with each change of it. */
function useChat(asking: Asking): Chat {
  const [store] = useState(() => createChat())
  const [, draw] = useState<object>()
  useEffect(() => {
    const look = (): void => void store.refresh()
    store.follow(draw)
    look()
    addEventListener('focus', look) // another tab may have changed the list
    return () => {
      removeEventListener('focus', look)
      store.stop()
    }
  }, [])
  return store.chat(asking)
}

/** The menu or the settings, when they lie over the page. */
const openPanel = '[popover=auto]:popover-open'
const panelWithoutFocus = `${openPanel}:not(:focus-within)`

/** Escape stops answers, Ctrl+K begins a new chat, Ctrl+Z undoes a deletion, and Ctrl+Shift+Z deletes again. */
function useKeys({ isBusy, stop, notice }: Chat, startNew: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const key = event.key.toLowerCase()
      const { value: typed } = event.target as Partial<HTMLInputElement>
      if (key === 'z' && (event.ctrlKey || event.metaKey) && !typed) {
        if (event.shiftKey) notice?.redo?.()
        else notice?.undo?.()
      }
      const isNew = (event.ctrlKey || event.metaKey) && (event.shiftKey ? key === 'o' : key === 'k')
      if (key === 'escape' && isBusy && document.querySelector(openPanel) === null) stop()
      if (!isNew) return
      event.preventDefault()
      startNew()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  })
}

const controls = 'a[href], button:enabled, select:enabled, summary, [tabindex="0"]'

/**
 * Keeps the focus visible. When the focused control disappears, the nearest remaining control gets the focus,
 * instead of the top of the page.
 */
function useKeptFocus(): void {
  useEffect(() => {
    // No fields on a phone, whose keyboard would cover the page.
    const fields = matchMedia('(pointer: coarse)').matches ? '' : ', input:enabled, textarea'
    /** The focused element and its ancestors. */
    let path: readonly Element[] = []
    let place = new DOMRect()
    addEventListener('focusin', (event) => {
      path = event.composedPath().filter((part) => part instanceof Element)
      place = path[0]!.getBoundingClientRect()
      // An open panel closes when the focus leaves it: it could hide the focused control.
      const over = document.querySelector<HTMLElement>(panelWithoutFocus)
      if (!path[0]!.matches('[popovertarget]')) over?.hidePopover()
    })
    // A panel that opens lies over the button that opened it.
    const first = `${panelWithoutFocus} :is(a, button)`
    addEventListener('toggle', () => document.querySelector<HTMLElement>(first)?.focus(), true)
    const distance = (control: Element): number => {
      const { x, y } = control.getBoundingClientRect()
      return Math.hypot(x - place.x, y - place.y)
    }
    const keep = (): void => {
      const isUsable = (part: Element | null | undefined): boolean =>
        part?.matches('body, :disabled') === false && part.checkVisibility()
      if (isUsable(path[0]) || isUsable(document.activeElement)) return
      for (const part of path) {
        const left = [...part.querySelectorAll<HTMLElement>(controls + fields)]
        const seen = left.filter((control) => control.checkVisibility())
        const [nearest] = seen.toSorted((a, b) => distance(a) - distance(b))
        if (nearest !== undefined) return nearest.focus()
      }
    }
    const changes = { childList: true, subtree: true, attributeFilter: ['disabled', 'hidden'] }
    new MutationObserver(keep).observe(document.body, changes)
  }, [])
}

/** A model as `GET /v1/models` lists it. */
interface ListedModel {
  readonly id: string
  /** Known once it was in memory. */
  readonly architecture?: { readonly input_modalities: readonly Modality[] }
}

/** The models' names and inputs, read again with each page, as one may have been downloaded, and until the server answers. */
function useModels(server: Server, page: PageId) {
  type Listed = { readonly data: readonly ListedModel[] }
  const looks = { everyMs: 1000, goesOn: () => false, again: page }
  const { answer, error } = useAnswer<Listed>('v1/models', looks, server)
  const isLoading = answer === undefined && error instanceof ServerError && error.status === 503
  return useMemo(() => {
    const models = answer?.data ?? []
    const inputs = models.map((each) => [each.id, each.architecture?.input_modalities] as const)
    return { names: models.map(({ id }) => id), inputs: new Map(inputs), isLoading }
  }, [answer, isLoading])
}
