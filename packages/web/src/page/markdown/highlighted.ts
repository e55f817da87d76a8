import type { ComponentChild } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'

type Highlight = (text: string, language: string) => ComponentChild | undefined

let loaded: Highlight | undefined

/** Code in colours, once the library for it is there: it is loaded with the first block of a language. */
export function Highlighted({
  text,
  language,
}: {
  readonly text: string
  readonly language: string
}): ComponentChild {
  const [highlight, setHighlight] = useState(() => loaded)
  useEffect(() => {
    if (highlight !== undefined || language === '') return
    void import('./highlight.js').then(({ highlight }) => {
      loaded = highlight
      setHighlight(() => highlight)
    })
  }, [highlight, language])
  return useMemo(() => highlight?.(text, language) ?? text, [highlight, text, language])
}
