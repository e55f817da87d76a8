import { render } from 'preact'
import { App } from './app.js'
import './markdown/highlight.css'
import './style.css'

render(<App />, document.querySelector('#app')!)
