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

render(<App />, document.querySelector('#app')!)
