import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ChatPage } from './chat/chat-page.js'
import { LabPage } from './lab/lab-page.js'
import { KeyForm } from './key-form.js'
import { KeysPage } from './keys/keys-page.js'
import { ModelsPage } from './models/models-page.js'
import { usePull } from './models/pull-form.js'
import { SchedulerPage } from './scheduler/scheduler-page.js'
import { Server, type ServerError, ServerContext } from './server/server.js'
import { isOff, SwitchedOff } from './parts/switched-off.js'
import { ThemeButton } from './parts/theme-button.js'
import { UsagePage } from './usage/usage-page.js'

const pages = [
  ['chat', 'Chat'],
  ['scheduler', 'Scheduler'],
  ['lab', 'Lab'],
  ['models', 'Models'],
  ['keys', 'Keys'],
  ['usage', 'Usage'],
] as const

type Page = (typeof pages)[number][0]

/** What the address says after `#`: a page, and perhaps what to show on it. */
function useAddress(): { readonly page: Page; readonly detail: string | undefined } {
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
export function App(): JSX.Element {
  const [refusal, setRefusal] = useState<ServerError>()
  /** Another one with each key: what was refused with the old one asks again. */
  const [server, setServer] = useState(() => new Server(setRefusal))
  const { page, detail } = useAddress()
  const models = useModels(server, page)
  const pull = usePull(server)
  return (
    <ServerContext.Provider value={server}>
      <header>
        <strong class="name">cLLM</strong>
        <nav aria-label="Pages">
          {pages.map(([id, label]) => (
            <a
              key={id}
              class={isOff(id) ? 'off' : undefined}
              href={`#${id}`}
              aria-current={id === page ? 'page' : undefined}
            >
              {label}
            </a>
          ))}
        </nav>
        <ThemeButton />
      </header>
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
      <main>
        {/* An answer goes on coming while another page is shown. */}
        <div hidden={page !== 'chat'}>
          <ChatPage models={models} />
        </div>
        {page === 'models' && <ModelsPage pull={pull} />}
        {page === 'keys' && !isOff(page) && <KeysPage />}
        {page === 'usage' && !isOff(page) && <UsagePage />}
        {isOff(page) && <SwitchedOff feature={page} />}
        {page === 'lab' && <LabPage />}
        {page === 'scheduler' && <SchedulerPage models={models} request={detail} />}
      </main>
    </ServerContext.Provider>
  )
}

/** The names of the models, asked for with each page: one may have been fetched meanwhile. */
function useModels(server: Server, page: Page): readonly string[] {
  const [models, setModels] = useState<readonly string[]>([])
  useEffect(() => {
    void server
      .json<{ readonly data: readonly { readonly id: string }[] }>('v1/models')
      .then(({ data }) => setModels(data.map(({ id }) => id)))
      .catch(() => {}) // a missing key is asked for, and the list before may still be right
  }, [server, page])
  return models
}
