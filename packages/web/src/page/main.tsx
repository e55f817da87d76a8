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

for (const name of ['localStorage', 'sessionStorage'] as const) {
  try {
    globalThis[name].getItem('')
  } catch {
    // A browser that blocks cookies denies its storage, too: settings then last as long as the page is open.
    const kept = new Map<string, string>()
    const value: Pick<Storage, 'getItem' | 'setItem'> = {
      getItem: (key) => kept.get(key) ?? null,
      setItem: (key, text) => void kept.set(key, text),
    }
    Object.defineProperty(globalThis, name, { value })
  }
}

render(<App />, document.querySelector('#app')!)
