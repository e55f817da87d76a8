import { CllmError } from '@cllm/core'

/** What a template can show. */
export interface TemplateValues {
  readonly System: string
  readonly Prompt: string
}

/** A part of a prompt: the template's own words, or what it shows. */
export interface TemplatePiece {
  readonly text: string
  readonly isValue: boolean
}

type Branch = { readonly shows: boolean; readonly wasTrue: boolean }

/** An action between its braces. */
interface Action {
  readonly begin: number
  readonly end: number
  readonly content: string
  readonly trimsBefore: boolean
  readonly trimsAfter: boolean
}

const names = ['System', 'Prompt', 'Response'] as const

/** Pieces of a prompt: each one is a call of the tokenizer. Templates that models have make ten. */
const mostPieces = 1000

/**
 * Renders a template of Ollama's, which are Go's: `{{ .System }}`, `{{ .Prompt }}`, `{{ .Response }}`,
 * where the answer begins and the prompt ends, `{{ if .System }}`, `{{ else }}`, `{{ end }}`, comments,
 * and `{{-` and `-}}`, which take the space beside them. Throws `unsupported` for anything else, and
 * `invalid_request` as soon as the prompt gets longer than `limit` characters.
 */
export function renderGoTemplate(
  template: string,
  values: TemplateValues,
  limit: number,
): TemplatePiece[] {
  const pieces: TemplatePiece[] = []
  const branches: Branch[] = []
  let hidden = 0
  let length = 0
  let at = 0
  let trims = false
  const enter = (branch: Branch): void => {
    branches.push(branch)
    if (!branch.shows) hidden++
  }
  const leave = (): Branch | undefined => {
    const branch = branches.pop()
    if (branch?.shows === false) hidden--
    return branch
  }
  const add = (piece: TemplatePiece): void => {
    length += piece.text.length
    if (length > limit || pieces.length >= mostPieces) throw tooLong(limit)
    pieces.push(piece)
  }
  const words = (end: number, trimsEnd: boolean): void => {
    let text = template.slice(at, end)
    if (trims) text = text.trimStart()
    if (trimsEnd) text = text.trimEnd()
    if (hidden === 0 && text !== '') add({ text, isValue: false })
  }
  for (const { begin, end, content, trimsBefore, trimsAfter } of actionsOf(template)) {
    words(begin, trimsBefore)
    at = end
    trims = trimsAfter
    const name = nameOf(content)
    if (content === 'end') {
      if (leave() === undefined) throw refused('{{ end }} without {{ if }}')
    } else if (content === 'else') {
      const branch = leave()
      if (branch === undefined) throw refused('{{ else }} without {{ if }}')
      enter({ shows: !branch.wasTrue, wasTrue: true })
    } else if (content.startsWith('if ') && name !== undefined) {
      const isTrue = name !== 'Response' && values[name] !== ''
      enter({ shows: isTrue, wasTrue: isTrue })
    } else if (content.startsWith('.') && name !== undefined) {
      if (hidden > 0) continue
      if (name === 'Response') return pieces
      if (values[name] !== '') add({ text: values[name], isValue: true })
    } else if (!/^\/\*.*\*\/$/s.test(content)) {
      throw refused(template.slice(begin, Math.min(end, begin + 100)))
    }
  }
  if (branches.length > 0) throw refused('{{ if }} without {{ end }}')
  words(template.length, false)
  return pieces
}

/** Looked for with `indexOf`: a pattern would try every brace as a beginning, up to the end. */
function* actionsOf(template: string): Generator<Action> {
  let at = 0
  while (true) {
    const begin = template.indexOf('{{', at)
    const close = begin < 0 ? -1 : template.indexOf('}}', begin + 2)
    if (close < 0) return
    let content = template.slice(begin + 2, close)
    const trimsBefore = content.startsWith('-')
    if (trimsBefore) content = content.slice(1)
    const trimsAfter = content.endsWith('-')
    if (trimsAfter) content = content.slice(0, -1)
    at = close + 2
    yield { begin, end: at, content: content.trim(), trimsBefore, trimsAfter }
  }
}

function tooLong(limit: number): CllmError {
  const message = `template: expected a prompt of at most ${limit} characters and ${mostPieces} parts, instead got more`
  return new CllmError('invalid_request', message, { details: { field: 'template', limit } })
}

function nameOf(content: string): (typeof names)[number] | undefined {
  const [, word] = /^(?:if\s+)?\.(\w+)$/.exec(content) ?? []
  return names.find((name) => name === word)
}

function refused(received: string): CllmError {
  const expected =
    '{{ .System }}, {{ .Prompt }}, {{ .Response }}, {{ if … }}, {{ else }} and {{ end }}'
  const message = `template: expected ${expected} only, instead got ${received}`
  return new CllmError('unsupported', message, { details: { field: 'template' } })
}
