import { render } from 'preact'
import { App } from './app.js'
import './styles/base.css'
import './styles/forms.css'
import './styles/tables.css'
import './styles/shell.css'
import './styles/conversations.css'
import './styles/chat.css'
import './styles/compose.css'
import './styles/live.css'
import './styles/charts.css'
import './markdown/highlight.css'

/** What is kept while the page is open. */
function pageStorage(): Pick<Storage, 'getItem' | 'setItem'> {
  const kept = new Map<string, string>()
  return {
    getItem: (name) => kept.get(name) ?? null,
    setItem: (...entry) => void kept.set(...entry),
  }
}

for (const name of ['localStorage', 'sessionStorage'] as const) {
  try {
    globalThis[name].getItem('')
  } catch {
    // A browser that blocks cookies denies its storage, too.
    Object.defineProperty(globalThis, name, { value: pageStorage() })
  }
}

render(<App />, document.querySelector('#app')!)
