import { type ComponentChild, h } from 'preact'
import { CopyButton } from '../parts/copy-button.js'
import { Highlighted } from './highlighted.js'

/** A block of code in colours, with a button that copies it. */
export function CodeBlock({
  text,
  language,
}: {
  readonly text: string
  readonly language: string
}): ComponentChild {
  const name = language.split(/\s/)[0] ?? ''
  return h('div', { class: 'code' }, [
    h('div', { class: 'code-head' }, [h('span', null, name), h(CopyButton, { text })]),
    h(
      'pre',
      { tabIndex: 0, role: 'region', 'aria-label': `Code ${name}` },
      h('code', null, h(Highlighted, { text, language: name })),
    ),
  ])
}
