import { refusedTemplate, templateTokens, type TemplateWord } from './template-tokens.js'

/** What a part of a command gives. */
export type Operand =
  | { readonly type: 'value'; readonly value: string | number | boolean | null }
  | { readonly type: 'dot' }
  | { readonly type: 'variable'; readonly name: string }
  | { readonly type: 'function'; readonly name: string }
  | { readonly type: 'pipeline'; readonly pipeline: Pipeline }
  | { readonly type: 'field'; readonly of: Operand; readonly name: string }

/** Commands, each of which has the result of the one before it as its last argument. */
export type Pipeline = readonly (readonly Operand[])[]

/** A part of a template. */
export type TemplateNode =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'show'; readonly pipeline: Pipeline; readonly source: string }
  | {
      readonly type: 'set'
      readonly name: string
      readonly isNew: boolean
      readonly pipeline: Pipeline
    }
  | {
      readonly type: 'if' | 'with' | 'range'
      readonly pipeline: Pipeline
      /** What a value is called inside: of `range` the index, if there are two, and the item. */
      readonly names: readonly string[]
      readonly body: readonly TemplateNode[]
      readonly otherwise: readonly TemplateNode[]
    }
  | { readonly type: 'break' | 'continue' }

const deepest = 50

/**
 * Reads a Go template.
 *
 * @throws `unsupported` for what is none, or uses what Ollama's templates do not (`define`, `template`)
 */
export function parseTemplate(template: string): readonly TemplateNode[] {
  const tokens = templateTokens(template)
  let at = 0
  /** The nodes up to `{{ end }}` or `{{ else }}`, and the words behind the latter. */
  function block(depth: number): { nodes: TemplateNode[]; last: readonly TemplateWord[] } {
    if (depth > deepest) throw refusedTemplate(`actions inside more than ${deepest} others`)
    const nodes: TemplateNode[] = []
    while (at < tokens.length) {
      const token = tokens[at++]!
      if (token.type === 'text') {
        nodes.push(token)
        continue
      }
      const { words, source } = token
      const [first] = words
      const name = first?.type === 'name' ? first.text : ''
      if (name === 'end' || name === 'else') {
        if (depth === 0) throw refusedTemplate(`{{ ${name} }} without {{ if }}`)
        return { nodes, last: words }
      }
      if (name === 'if' || name === 'with' || name === 'range') {
        nodes.push(branch(name, words.slice(1), depth, source))
      } else if ((name === 'break' || name === 'continue') && words.length === 1) {
        nodes.push({ type: name })
      } else if (name === 'define' || name === 'template' || name === 'block') {
        throw refusedTemplate(source)
      } else nodes.push(statement(words, source))
    }
    if (depth > 0) throw refusedTemplate('{{ if }} without {{ end }}')
    return { nodes, last: [] }
  }
  function branch(
    type: 'if' | 'with' | 'range',
    words: readonly TemplateWord[],
    depth: number,
    source: string,
  ): TemplateNode {
    const { names, rest } = declared(words)
    const pipeline = readPipeline(rest, source)
    const first = block(depth + 1)
    const [word, next] = first.last
    if (word?.type === 'name' && word.text === 'end') {
      return { type, names, pipeline, body: first.nodes, otherwise: [] }
    }
    if (next === undefined) {
      const otherwise = block(depth + 1).nodes
      return { type, names, pipeline, body: first.nodes, otherwise }
    }
    if (next.type !== 'name' || (next.text !== 'if' && next.text !== 'with')) {
      throw refusedTemplate(source)
    }
    const otherwise = [branch(next.text, first.last.slice(2), depth + 1, source)]
    return { type, names, pipeline, body: first.nodes, otherwise }
  }
  return block(0).nodes
}

/** The variables before `:=`. */
function declared(words: readonly TemplateWord[]) {
  const sign = words.findIndex((word) => word.type === 'sign' && word.text === ':=')
  if (sign < 0) return { names: [], rest: words }
  const names = words.slice(0, sign).flatMap((word) => (word.type === 'variable' ? word.name : []))
  return { names, rest: words.slice(sign + 1) }
}

function statement(words: readonly TemplateWord[], source: string): TemplateNode {
  const [variable, sign] = words
  const isSet = sign?.type === 'sign' && (sign.text === ':=' || sign.text === '=')
  if (variable?.type !== 'variable' || !isSet) {
    return { type: 'show', pipeline: readPipeline(words, source), source }
  }
  const pipeline = readPipeline(words.slice(2), source)
  return { type: 'set', name: variable.name, isNew: sign.text === ':=', pipeline }
}

function readPipeline(words: readonly TemplateWord[], source: string): Pipeline {
  let at = 0
  function pipeline(depth: number): Pipeline {
    if (depth > deepest) throw refusedTemplate(source)
    const commands: Operand[][] = [[]]
    for (; at < words.length; at++) {
      const word = words[at]!
      const command = commands.at(-1)!
      if (word.type === 'sign') {
        if (word.text === ')' && depth > 0) break
        if (word.text === '|') commands.push([])
        else if (word.text === '(') {
          at++
          command.push({ type: 'pipeline', pipeline: pipeline(depth + 1) })
          if (at >= words.length) throw refusedTemplate(source)
        } else throw refusedTemplate(source)
      } else if (word.type === 'field') {
        const of = word.isClose ? command.pop() : undefined
        command.push(fieldsOf(of ?? { type: 'dot' }, word.names))
      } else if (word.type === 'name') command.push({ type: 'function', name: word.text })
      else command.push(word)
    }
    if (commands.some((command) => command.length === 0)) throw refusedTemplate(source)
    return commands
  }
  const read = pipeline(0)
  if (at < words.length) throw refusedTemplate(source)
  return read
}

const fieldsOf = (of: Operand, names: readonly string[]): Operand =>
  names.reduce<Operand>((inner, name) => ({ type: 'field', of: inner, name }), of)
