import { CllmError } from '@cllm/core'

/** What stands between the braces of an action, cut into words. */
export type TemplateWord =
  | { readonly type: 'name'; readonly text: string }
  /** `.System`, `.Function.Name` or `.` alone; the names without their dots. */
  | { readonly type: 'field'; readonly names: readonly string[]; readonly isClose: boolean }
  | { readonly type: 'variable'; readonly name: string }
  | { readonly type: 'value'; readonly value: string | number | boolean | null }
  | { readonly type: 'sign'; readonly text: string }

/** A text between actions, or an action. */
export type TemplateToken =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'action'; readonly words: readonly TemplateWord[]; readonly source: string }

const word =
  /\s*(?:(?<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)|(?<number>-?\d+(?:\.\d+)?)(?![\w.])|(?<variable>\$\w*)|(?<field>(?:\.[A-Za-z_]\w*)+|\.)|(?<name>[A-Za-z_]\w*)|(?<sign>:=|[=|(),]))/y

const comment = /\s*\/\*/y
const ending = /\s*-?(?=\}\})/y

/**
 * The texts and actions of a Go template, with the white space taken that `{{-` and `-}}` take.
 *
 * @throws `unsupported` where it is no template
 */
export function templateTokens(template: string): TemplateToken[] {
  const tokens: TemplateToken[] = []
  let at = 0
  let trims = false
  const addText = (end: number, trimsEnd: boolean): void => {
    let text = template.slice(at, end)
    if (trims) text = text.trimStart()
    if (trimsEnd) text = text.trimEnd()
    if (text !== '') tokens.push({ type: 'text', text })
  }
  while (true) {
    const begin = template.indexOf('{{', at)
    if (begin < 0) break
    const trimsBefore = /^-(?!\d)/.test(template.slice(begin + 2, begin + 4))
    const start = begin + (trimsBefore ? 3 : 2)
    addText(begin, trimsBefore)
    const { words, end } = wordsFrom(template, start)
    trims = template[end - 1] === '-'
    at = end + 2
    if (words !== undefined) {
      const source = template.slice(begin, Math.min(at, begin + 100))
      tokens.push({ type: 'action', words, source })
    }
  }
  addText(template.length, false)
  return tokens
}

/** The words up to the end of an action; undefined for a comment. */
function wordsFrom(
  template: string,
  start: number,
): { readonly words: readonly TemplateWord[] | undefined; readonly end: number } {
  const source = () => `{{${template.slice(start, start + 98)}`
  comment.lastIndex = start
  if (comment.test(template)) {
    const close = template.indexOf('*/', start)
    const end = close < 0 ? undefined : endAt(template, close + 2)
    if (end === undefined) throw refusedTemplate(source())
    return { words: undefined, end }
  }
  const words: TemplateWord[] = []
  let at = start
  while (true) {
    const end = endAt(template, at)
    if (end !== undefined) return { words, end }
    word.lastIndex = at
    const found = word.exec(template)
    if (found === null) throw refusedTemplate(source())
    words.push(toWord(found, template[at]))
    at += found[0].length
  }
}

/** Where an action ends that has nothing more from here on: behind its `-`, or at its braces. */
function endAt(template: string, at: number): number | undefined {
  ending.lastIndex = at
  return ending.test(template) ? ending.lastIndex : undefined
}

function toWord({ groups = {} }: RegExpExecArray, before: string | undefined): TemplateWord {
  const { string, number, variable, field, name, sign = '' } = groups
  if (string !== undefined) return { type: 'value', value: unquoted(string) }
  if (number !== undefined) return { type: 'value', value: Number(number) }
  if (variable !== undefined) return { type: 'variable', name: variable }
  if (field !== undefined) {
    const names = field.split('.').filter((part) => part !== '')
    return { type: 'field', names, isClose: before === '.' }
  }
  if (name === 'true' || name === 'false') return { type: 'value', value: name === 'true' }
  if (name === 'nil') return { type: 'value', value: null }
  return name === undefined ? { type: 'sign', text: sign } : { type: 'name', text: name }
}

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }

/** Go's text in quotes; one in backquotes is as it is. */
const unquoted = (quoted: string): string =>
  quoted.startsWith('`')
    ? quoted.slice(1, -1)
    : quoted
        .slice(1, -1)
        .replaceAll(/\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))/g, (_, long, short, sign) =>
          sign === undefined
            ? String.fromCharCode(Number.parseInt(String(long ?? short), 16))
            : (escapes[String(sign)] ?? String(sign)),
        )

/** The error for what is no template of Ollama's. */
export function refusedTemplate(received: string): CllmError {
  const message = `template: expected a Go template as Ollama's are, instead got ${received.slice(0, 120)}`
  return new CllmError('unsupported', message, { details: { field: 'template' } })
}
