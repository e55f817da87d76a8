import type { TokenizerAndRendererExtension } from 'marked'

/** A formula, which Markdown leaves alone. */
export interface MathToken {
  readonly type: 'math'
  readonly raw: string
  readonly text: string
  readonly isBlock: boolean
}

const formula = (
  name: string,
  level: 'block' | 'inline',
  begin: RegExp,
  whole: RegExp,
): TokenizerAndRendererExtension => ({
  name,
  level,
  start: (source) => begin.exec(source)?.index,
  tokenizer(source) {
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
  formula(
    'mathBlock',
    'block',
    /\$\$|\\\[/,
    /^ {0,3}(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])(?:\n|$)/,
  ),
  formula(
    'mathSpan',
    'inline',
    /\$|\\\(/,
    /^(?:\\\((.+?)\\\)|\$(?![\s$])([^$\n]*?[^\s$\\])\$(?!\d))/,
  ),
]
