import { CllmError } from '@cllm/core'
import { type Operand, parseTemplate, type Pipeline, type TemplateNode } from './parse-template.js'
import { refusedTemplate } from './template-tokens.js'
import {
  entriesIn,
  isTrue,
  memberOf,
  shownText,
  TemplateObject,
  templateFunctions,
} from './template-values.js'

/** A part of a prompt: the template's own words, or what it shows. */
export interface TemplatePiece {
  readonly text: string
  readonly isValue: boolean
}

/** Pieces of a prompt: each one is a call of the tokenizer. */
const mostPieces = 1000
/** Nodes that are looked at: a few words can be a loop in a loop. */
const mostSteps = 200_000

/** Where the answer begins, and the prompt ends. */
class AnswerBegins extends Error {}
class LoopEnds extends Error {
  constructor(readonly isBreak: boolean) {
    super()
  }
}

/**
 * Renders a template of Ollama's, which are Go's. A template for one turn ends where it shows
 * `.Response`.
 *
 * @param values - what the template finds at `.`, by Go's names
 * @param limit - characters of the prompt
 * @param isLast - false: an earlier turn, which goes on behind its answer
 * @throws `unsupported` for what is no template, `invalid_request` as soon as the prompt gets longer
 *   than `limit` characters
 */
export function renderGoTemplate(
  template: string,
  values: Readonly<Record<string, unknown>>,
  limit: number,
  isLast = true,
): TemplatePiece[] {
  const run = new Rendering(limit, isLast)
  const top = new TemplateObject({ Response: '', ...values }, values)
  const scope = new Scope(top, new Map([['$', top]]))
  try {
    run.all(parseTemplate(template), scope)
  } catch (error) {
    if (!(error instanceof AnswerBegins)) throw error
  }
  return run.pieces
}

/** What `.` and the variables are in a part of a template. */
class Scope {
  constructor(
    readonly dot: unknown,
    readonly variables: Map<string, unknown>,
    readonly outer?: Scope,
  ) {}

  inside(dot: unknown, names: Iterable<readonly [string, unknown]> = []): Scope {
    return new Scope(dot, new Map(names), this)
  }

  find(name: string): unknown {
    return this.#of(name).variables.get(name)
  }

  set(name: string, value: unknown): void {
    this.#of(name).variables.set(name, value)
  }

  #of(name: string): Scope {
    if (this.variables.has(name)) return this
    if (this.outer === undefined) throw refusedTemplate(`${name}, which is not defined`)
    return this.outer.#of(name)
  }
}

class Rendering {
  readonly pieces: TemplatePiece[] = []
  #length = 0
  #steps = 0

  constructor(
    private readonly limit: number,
    private readonly isLast: boolean,
  ) {}

  all(nodes: readonly TemplateNode[], scope: Scope): void {
    for (const node of nodes) {
      this.#step()
      switch (node.type) {
        case 'text':
          this.#add(node.text, false)
          break
        case 'show':
          this.#show(node.pipeline, scope)
          break
        case 'set': {
          const value = this.#value(node.pipeline, scope)
          if (node.isNew) scope.variables.set(node.name, value)
          else scope.set(node.name, value)
          break
        }
        case 'range':
          this.#range(node, scope)
          break
        case 'if':
        case 'with': {
          const value = this.#value(node.pipeline, scope)
          const [name] = node.names
          const dot = node.type === 'with' ? value : scope.dot
          const named = name === undefined ? [] : [[name, value] as const]
          if (isTrue(value)) this.all(node.body, scope.inside(dot, named))
          else this.all(node.otherwise, scope.inside(scope.dot, named))
          break
        }
        default:
          throw new LoopEnds(node.type === 'break')
      }
    }
  }

  #range(node: Extract<TemplateNode, { names: unknown }>, scope: Scope): void {
    const entries = entriesIn(this.#value(node.pipeline, scope))
    if (entries.length === 0) this.all(node.otherwise, scope.inside(scope.dot))
    const [first, second] = node.names
    for (const [key, item] of entries) {
      this.#step()
      const named =
        second === undefined
          ? [[first ?? '', item] as const]
          : [[first!, key] as const, [second, item] as const]
      try {
        this.all(node.body, scope.inside(item, named))
      } catch (error) {
        if (!(error instanceof LoopEnds)) throw error
        if (error.isBreak) return
      }
    }
  }

  #show(pipeline: Pipeline, scope: Scope): void {
    const [[only, ...more] = [], ...others] = pipeline
    const isAlone = more.length === 0 && others.length === 0
    const isTop =
      only?.type === 'field' && only.of.type === 'dot' && scope.dot instanceof TemplateObject
    const value = this.#value(pipeline, scope)
    this.#add(shownText(value), !(isAlone && only?.type === 'value'))
    if (this.isLast && isAlone && isTop && only.name === 'Response') throw new AnswerBegins()
  }

  #value(pipeline: Pipeline, scope: Scope): unknown {
    let value: unknown
    for (const [index, command] of pipeline.entries()) {
      this.#step()
      value = this.#command(command, scope, index === 0 ? [] : [value])
    }
    return value
  }

  #command(
    [first, ...others]: readonly Operand[],
    scope: Scope,
    last: readonly unknown[],
  ): unknown {
    if (first?.type !== 'function') {
      if (first === undefined || others.length + last.length > 0) {
        throw refusedTemplate('a value with arguments')
      }
      return this.#operand(first, scope)
    }
    const { name } = first
    if (name === 'and' || name === 'or') {
      let value: unknown
      for (const operand of others) {
        value = this.#operand(operand, scope)
        if (isTrue(value) === (name === 'or')) return value
      }
      return last.length > 0 ? last[0] : value
    }
    if (!Object.hasOwn(templateFunctions, name)) throw refusedTemplate(`the function ${name}`)
    const given = others.map((operand) => this.#operand(operand, scope))
    const call = templateFunctions[name] as (...given: readonly unknown[]) => unknown
    const value = call(...given, ...last)
    if (typeof value === 'string' && value.length > this.limit) throw tooLong(this.limit)
    return value
  }

  #operand(operand: Operand, scope: Scope): unknown {
    this.#step()
    switch (operand.type) {
      case 'value':
        return operand.value
      case 'dot':
        return scope.dot
      case 'variable':
        return scope.find(operand.name)
      case 'pipeline':
        return this.#value(operand.pipeline, scope)
      case 'field':
        return memberOf(this.#operand(operand.of, scope), operand.name)
      case 'function':
        return this.#command([operand], scope, [])
    }
  }

  #add(text: string, isValue: boolean): void {
    if (text === '') return
    this.#length += text.length
    const last = this.pieces.at(-1)
    const isMore = last?.isValue === isValue
    if (this.#length > this.limit || (!isMore && this.pieces.length >= mostPieces)) {
      throw tooLong(this.limit)
    }
    if (isMore) this.pieces[this.pieces.length - 1] = { text: last.text + text, isValue }
    else this.pieces.push({ text, isValue })
  }

  #step(): void {
    if (++this.#steps > mostSteps) throw refusedTemplate(`more than ${mostSteps} steps`)
  }
}

function tooLong(limit: number): CllmError {
  const message = `template: expected a prompt of at most ${limit} characters and ${mostPieces} parts, instead got more`
  return new CllmError('invalid_request', message, { details: { field: 'template', limit } })
}
