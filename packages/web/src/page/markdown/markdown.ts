import { Marked, type Token, type TokenizerAndRendererExtension, type Tokens } from 'marked'
import { type ComponentChild, createContext, h } from 'preact'
import { useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { CopyButton } from '../parts/icon.js'

/** A formula, whose text is not parsed as Markdown. */
interface MathToken {
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
 * `$$…$$` and `\[…\]` are blocks, `\(…\)` and `$…$` stand in a line. A `$` before or after a space is a dollar
 * sign, as in Pandoc.
 */
const mathExtensions: TokenizerAndRendererExtension[] = [
  syntax('block', /\$\$|\\\[/, /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])(?:\n|$)/),
  syntax('inline', /\$|\\\(/, /^(?:\\\((.+?)\\\)|\$(?![\s$])([^$\n]*?[^\s$\\])\$(?!\d))/),
]

const marked = new Marked({ gfm: true, breaks: false, extensions: mathExtensions })

/** Whether the text is still streaming in. */
const Coming = createContext(false)

interface MarkdownProps {
  readonly text: string
  readonly isComing?: boolean
}

/**
 * Shows a model's Markdown. Its tokens become elements and never HTML text, so that nothing in them can run:
 * HTML is shown as text, images are not loaded, and links lead to the web only.
 */
export function Markdown({ text, isComing = false }: MarkdownProps): ComponentChild {
  const tokens = useMemo(() => marked.lexer(text), [text])
  // The first letter of each outer block decides its direction: Arabic and English may follow each other.
  const sided = blocks(tokens).map((block) => h('div', { dir: 'auto' }, block))
  return h('div', { class: 'markdown' }, h(Coming.Provider, { value: isComing }, sided))
}

const blocks = (tokens: readonly Token[] = []): ComponentChild[] =>
  tokens.map((token, index) => h(Block, { key: index, token }))

/** A token as elements; unknown tokens are left out. */
function Block({ token }: { readonly token: Token }): ComponentChild {
  const known = token as Tokens.Generic | MathToken
  switch (known.type) {
    case 'space':
    case 'def':
      return null
    case 'paragraph':
      return h('p', null, spans(token))
    case 'heading': {
      // Levels 1 and 2 are the page's own headings.
      const level = Math.min(6, (token as Tokens.Heading).depth + 2)
      return h(`h${level}`, null, spans(token))
    }
    case 'code': {
      const { text, lang = '' } = token as Tokens.Code
      return h(CodeBlock, { text, language: lang })
    }
    case 'blockquote':
      return h('blockquote', null, blocks((token as Tokens.Blockquote).tokens))
    case 'list':
      return list(token as Tokens.List)
    case 'table':
      return table(token as Tokens.Table)
    case 'hr':
      return h('hr', null)
    case 'math':
    case 'checkbox':
      return span(token)
    case 'text':
      return 'tokens' in known ? h('span', null, spans(token)) : known.raw
    default:
      return h('p', null, known.raw)
  }
}

function list({ ordered, start, items }: Tokens.List): ComponentChild {
  const entries = items.map(({ task, tokens }, index) =>
    h('li', { key: index, class: task ? 'task' : undefined }, blocks(tokens)),
  )
  return ordered ? h('ol', { start: start === '' ? 1 : start }, entries) : h('ul', null, entries)
}

function table({ header, rows }: Tokens.Table): ComponentChild {
  const cell = (tag: 'th' | 'td') => (each: Tokens.TableCell, index: number) =>
    h(tag, { key: index, class: each.align === null ? '' : `align-${each.align}` }, spans(each))
  const head = h('thead', null, h('tr', null, header.map(cell('th'))))
  const lines = rows.map((row, index) => h('tr', { key: index }, row.map(cell('td'))))
  const region = { class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Table' }
  return h('div', region, h('table', null, [head, h('tbody', null, lines)]))
}

function spans(token: unknown): ComponentChild[] {
  const { tokens = [] } = token as { readonly tokens?: readonly Token[] }
  return tokens.map(span)
}

function span(token: Token): ComponentChild {
  const known = token as Tokens.Generic | MathToken
  switch (known.type) {
    case 'strong':
    case 'em':
    case 'del':
      return h(known.type, null, spans(token))
    case 'codespan':
      return h('code', null, (token as Tokens.Codespan).text)
    case 'br':
      return h('br', null)
    case 'link':
      return link((token as Tokens.Link).href, spans(token))
    case 'image': {
      const { href, text } = token as Tokens.Image
      return link(href, [`image: ${text === '' ? href : text}`])
    }
    case 'checkbox': {
      const { checked } = token as Tokens.Checkbox
      return h('input', { type: 'checkbox', checked, disabled: true, 'aria-label': 'done' })
    }
    case 'math':
      return h(Formula, known as MathToken)
    case 'escape':
      return (token as Tokens.Escape).text
    case 'text':
      return 'tokens' in known && known['tokens'] !== undefined
        ? spans(token)
        : decoded((token as Tokens.Text).text)
    default:
      return known.raw
  }
}

function link(href: string, children: ComponentChild[]): ComponentChild {
  const address = safeLink(href)
  if (address === undefined) return h('span', null, children)
  const props = { href: address, target: '_blank', rel: 'noopener noreferrer nofollow' }
  return h('a', props, children)
}

const letters = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' }
const entities = new Map(Object.entries(letters))

/** Decodes entities in Markdown's text, which an element would show literally. */
const decoded = (text: string): string =>
  text.replaceAll(/&(\w+);/g, (whole, name: string) => entities.get(name) ?? whole)

/** The address of a safe link, or undefined: no scripts, no data, no files. */
function safeLink(href: string): string | undefined {
  // Browsers leave such characters out of a scheme: "java\nscript:" is one.
  const plain = href.replaceAll(/[\s\p{Cc}]/gu, '')
  if (plain.startsWith('#') || !URL.canParse(plain)) return undefined
  const { protocol, href: address } = new URL(plain)
  return ['http:', 'https:', 'mailto:'].includes(protocol) ? address : undefined
}

interface CodeProps {
  readonly text: string
  readonly language: string
}

/** A coloured block of code, with a button that copies it. */
function CodeBlock({ text, language }: CodeProps): ComponentChild {
  const name = language.split(/\s/)[0] ?? ''
  const head = h('div', { class: 'code-head' }, [h('span', null, name), h(CopyButton, { text })])
  const region = { tabIndex: 0, role: 'region', 'aria-label': `Code ${name}` }
  const code = h('code', null, h(Highlighted, { text, language: name }))
  return h('div', { class: 'code' }, [head, h('pre', region, code)])
}

/** The most letters of a piece of code, unless a single line is longer. */
const longestPiece = 4000
/** The most letters of code that is coloured as a whole once it is complete. */
const longestWhole = 20_000

/** Splits code into pieces at line ends; where possible at an empty line before a line without indentation. */
export function piecesOf(code: string): string[] {
  const pieces: string[] = []
  let rest = code
  while (rest.length > longestPiece) {
    const begin = rest.slice(0, longestPiece)
    const found = /^[^]*\n\n(?=\S)/.exec(begin) ?? /^[^]*\n/.exec(begin) ?? /^.*\n/.exec(rest)
    if (found === null) break // a line that has not ended
    const [piece] = found
    pieces.push(piece)
    rest = rest.slice(piece.length)
  }
  return [...pieces, rest]
}

type Highlight = (text: string, language: string) => ComponentChild | undefined

let loaded: Highlight | undefined

/**
 * Coloured code, once the library for that is loaded, which happens with the first block in some language. Streaming
 * or long code is coloured in pieces, so that each token changes the last piece only.
 */
function Highlighted({ text, language }: CodeProps): ComponentChild {
  const [highlight, setHighlight] = useState(() => loaded)
  const isApart = useContext(Coming) || text.length > longestWhole
  useEffect(() => {
    if (highlight !== undefined) return
    void import('./highlight.js').then(({ highlight }) => {
      loaded = highlight
      setHighlight(() => highlight)
    })
  }, [highlight, language])
  const pieces = isApart && language !== '' ? piecesOf(text) : [text]
  return pieces.map((text, key) => h(Piece, { key, text, language, highlight }))
}

interface PieceProps extends CodeProps {
  readonly highlight: Highlight | undefined
}

const Piece = ({ text, language, highlight }: PieceProps): ComponentChild =>
  useMemo(() => h('span', null, highlight?.(text, language) ?? text), [highlight, text, language])

/** A formula; its source while KaTeX is being loaded, and where KaTeX cannot read it. */
function Formula({ text, isBlock }: Pick<MathToken, 'text' | 'isBlock'>): ComponentChild {
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
