import { type ComponentChild, h } from 'preact'
import { useState } from 'preact/hooks'

/** A block of code, with a button that copies it. */
export function CodeBlock({
  text,
  language,
}: {
  readonly text: string
  readonly language: string
}): ComponentChild {
  const [isCopied, setCopied] = useState(false)
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text)
    setCopied(true)
  }
  const name = language.split(/\s/)[0] ?? ''
  return h('div', { class: 'code' }, [
    h('div', { class: 'code-head' }, [
      h('span', null, name),
      h('button', { type: 'button', class: 'quiet', onClick: () => void copy() }, [
        isCopied ? 'Copied' : 'Copy',
      ]),
    ]),
    h('pre', { tabIndex: 0, role: 'region', 'aria-label': `Code ${name}` }, h('code', null, text)),
  ])
}
