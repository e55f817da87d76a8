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

const names = ['System', 'Prompt', 'Response'] as const
const action = /\{\{(-?)\s*(.*?)\s*(-?)\}\}/gs

/**
 * Renders a template of Ollama's, which are Go's: `{{ .System }}`, `{{ .Prompt }}`, `{{ .Response }}`,
 * where the answer begins and the prompt ends, `{{ if .System }}`, `{{ else }}`, `{{ end }}`, comments,
 * and `{{-` and `-}}`, which take the space beside them. Throws `unsupported` for anything else.
 */
export function renderGoTemplate(template: string, values: TemplateValues): TemplatePiece[] {
  const pieces: TemplatePiece[] = []
  const branches: Branch[] = []
  const shows = (): boolean => branches.every((branch) => branch.shows)
  let at = 0
  let trims = false
  const words = (end: number, trimsEnd: boolean): void => {
    let text = template.slice(at, end)
    if (trims) text = text.trimStart()
    if (trimsEnd) text = text.trimEnd()
    if (shows() && text !== '') pieces.push({ text, isValue: false })
  }
  for (const match of template.matchAll(action)) {
    const [whole, left = '', content = '', right = ''] = match
    words(match.index, left === '-')
    at = match.index + whole.length
    trims = right === '-'
    const name = nameOf(content)
    if (content === 'end') {
      if (branches.pop() === undefined) throw refused('{{ end }} without {{ if }}')
    } else if (content === 'else') {
      const branch = branches.pop()
      if (branch === undefined) throw refused('{{ else }} without {{ if }}')
      branches.push({ shows: !branch.wasTrue, wasTrue: true })
    } else if (content.startsWith('if ') && name !== undefined) {
      const isTrue = name !== 'Response' && values[name] !== ''
      branches.push({ shows: isTrue, wasTrue: isTrue })
    } else if (content.startsWith('.') && name !== undefined) {
      if (!shows()) continue
      if (name === 'Response') return pieces
      if (values[name] !== '') pieces.push({ text: values[name], isValue: true })
    } else if (!/^\/\*.*\*\/$/s.test(content)) {
      throw refused(whole)
    }
  }
  if (branches.length > 0) throw refused('{{ if }} without {{ end }}')
  words(template.length, false)
  return pieces
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
