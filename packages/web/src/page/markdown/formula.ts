import { type ComponentChild, h } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

/** A formula; as it was written while the library for it comes, and where it is none that KaTeX knows. */
export function Formula({
  text,
  isBlock,
}: {
  readonly text: string
  readonly isBlock: boolean
}): ComponentChild {
  const place = useRef<HTMLElement>(null)
  const [drawn, setDrawn] = useState<string>()
  useEffect(() => {
    let isGone = false
    void import('./draw-formula.js').then(({ drawFormula }) => {
      const { current } = place
      if (!isGone && current !== null && drawFormula(current, text, isBlock)) setDrawn(text)
    })
    return () => {
      isGone = true
    }
  }, [text, isBlock])
  const isDrawn = drawn === text
  const source = { class: 'math', hidden: isDrawn }
  const picture = h('span', { ref: place, hidden: !isDrawn })
  if (!isBlock) return h('span', null, h('code', source, text), picture)
  const region = { class: 'scroll formula', tabIndex: 0, role: 'region', 'aria-label': 'Formula' }
  return h('div', region, h('pre', source, text), picture)
}
