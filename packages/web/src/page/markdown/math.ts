import type { TokenizerAndRendererExtension } from 'marked'
import { type ComponentChild, h } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

/** A formula, which Markdown leaves alone. */
export interface MathToken {
  readonly type: 'math'
  readonly raw: string
  readonly text: string
  readonly isBlock: boolean
}

const syntax = (level: 'block' | 'inline', begin: RegExp, whole: RegExp) => ({
  name: `math ${level}`,
  level,
  start: (source: string) => begin.exec(source)?.index,
  tokenizer(source: string) {
    const match = whole.exec(source)
    if (match === null) return undefined
    const [raw, one, other] = match
    return { type: 'math', raw, text: (one ?? other ?? '').trim(), isBlock: level === 'block' }
  },
})

/**
 * `$$…$$` and `\[…\]` as blocks, `\(…\)` and `$…$` in a line. A `$` before a space or behind one is money,
 * as in Pandoc.
 */
export const mathExtensions: readonly TokenizerAndRendererExtension[] = [
  syntax('block', /\$\$|\\\[/, /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])(?:\n|$)/),
  syntax('inline', /\$|\\\(/, /^(?:\\\((.+?)\\\)|\$(?![\s$])([^$\n]*?[^\s$\\])\$(?!\d))/),
]

/** A formula; as it was written while the library for it comes, and where it is none that KaTeX knows. */
export function Formula({ text, isBlock }: Pick<MathToken, 'text' | 'isBlock'>): ComponentChild {
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
