import { type ComponentChild, h } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { CopyButton } from '../parts/copy-button.js'

interface CodeBlockProps {
  readonly text: string
  readonly language: string
}

/** A block of code in colours, with a button that copies it. */
export function CodeBlock({ text, language }: CodeBlockProps): ComponentChild {
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

type Highlight = (text: string, language: string) => ComponentChild | undefined

let loaded: Highlight | undefined

interface HighlightedProps {
  readonly text: string
  readonly language: string
}

/** Code in colours, once the library for it is there: it is loaded with the first block of a language. */
function Highlighted({ text, language }: HighlightedProps): ComponentChild {
  const [highlight, setHighlight] = useState(() => loaded)
  useEffect(() => {
    if (highlight !== undefined) return
    void import('./highlight.js').then(({ highlight }) => {
      loaded = highlight
      setHighlight(() => highlight)
    })
  }, [highlight, language])
  return useMemo(() => highlight?.(text, language) ?? text, [highlight, text, language])
}
