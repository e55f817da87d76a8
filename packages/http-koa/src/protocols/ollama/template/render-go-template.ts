import { CllmError } from '@cllm/core'
import { type Operand, parseTemplate, type Pipeline, type TemplateNode } from './parse-template.js'
import { lazyFunctions } from './check-template.js'
import { ollamaFunctions } from './ollama-functions.js'
import { refusedTemplate } from './template-tokens.js'
import {
  effortOf,
  effortOfEntry,
  entriesIn,
  isTrue,
  jsonText,
  memberOf,
  shownText,
  type TemplateFunction,
  templateFunctions,
  TemplateObject,
} from './template-values.js'

/** A part of a prompt: the template's own words, or what it shows. */
export interface TemplatePiece {
  readonly text: string
  readonly isValue: boolean
}

/** Pieces of a prompt: each one is a call of the tokenizer. */
const mostPieces = 4000
/** Nodes that are looked at: a few words can be a loop in a loop. */
const mostSteps = 200_000
/** How often the longest prompt may be read by functions: one step can read all of it. */
const mostReadings = 8

/** Where the answer begins, and the prompt ends. */
class AnswerBegins extends Error {}
class LoopEnds extends Error {
  constructor(readonly isBreak: boolean) {
    super()
  }
}

/** What a template finds at `.`, by Go's names. */
export type TemplateFields = Readonly<Record<string, unknown>>

/**
 * Renders a template of Ollama's, which are Go's. A template for one turn ends where it shows
 * `.Response`.
 *
 * @param limit - characters of the prompt
 * @param now - milliseconds since the epoch, for templates that show the date
 * @throws `unsupported` for what is no template or computes too much, `invalid_request` as soon as the
 *   prompt gets longer than `limit` characters
 */
export const renderGoTemplate = (
  template: string,
  fields: TemplateFields,
  limit: number,
  now = 0,
): TemplatePiece[] => renderTurns(template, [fields], limit, now)

/**
 * Renders a template for one turn after the other: it goes on behind the answer of each but the last.
 * The limits are for all turns together.
 *
 * @throws as {@link renderGoTemplate}
 */
export function renderTurns(
  template: string,
  turns: readonly TemplateFields[],
  limit: number,
  now = 0,
): TemplatePiece[] {
  const nodes = parseTemplate(template)
  const run = new Rendering(limit, now)
  for (const [index, fields] of turns.entries()) run.turn(nodes, fields, index === turns.length - 1)
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
  readonly #functions: Readonly<Record<string, TemplateFunction>>
  #isLast = false
  #length = 0
  #steps = 0
  #effort = 0

  constructor(
    private readonly limit: number,
    now: number,
  ) {
    const functions = templateFunctions(
      (value) => this.#written(value, shownText),
      (value) => this.#written(value, jsonText),
    )
    this.#functions = { ...functions, ...ollamaFunctions(now) }
  }

  turn(nodes: readonly TemplateNode[], fields: TemplateFields, isLast: boolean): void {
    // what another template has at the top, such as .Query, is nothing here
    const top = new TemplateObject({ Response: '', ...fields }, fields, true)
    this.#isLast = isLast
    try {
      this.all(nodes, new Scope(top, new Map([['$', top]])))
    } catch (error) {
      if (error instanceof LoopEnds) throw refusedTemplate('{{ break }} outside {{ range }}')
      if (!(error instanceof AnswerBegins)) throw error
    }
  }

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
          if (this.#isTrue(value)) this.all(node.body, scope.inside(dot, named))
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
    this.#spend(entries.length * effortOfEntry)
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
    if (this.#isLast && isAlone && isTop && only.name === 'Response') throw new AnswerBegins()
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
    if (lazyFunctions.includes(name)) {
      let value: unknown
      for (const operand of others) {
        value = this.#operand(operand, scope)
        if (this.#isTrue(value) === (name === 'or')) return value
      }
      return last.length > 0 ? last[0] : value
    }
    if (!Object.hasOwn(this.#functions, name)) throw refusedTemplate(`the function ${name}`)
    const given = [...others.map((operand) => this.#operand(operand, scope)), ...last]
    for (const value of given) this.#spend(effortOf(value))
    const call = this.#functions[name] as (...given: readonly unknown[]) => unknown
    const value = call(...given)
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

  #isTrue(value: unknown): boolean {
    if (typeof value !== 'string') this.#spend(effortOf(value))
    return isTrue(value)
  }

  /** What a function makes of a value; the length of an object is known only then. */
  #written(value: unknown, write: (value: unknown) => string): string {
    const text = write(value)
    if (typeof value !== 'string') this.#spend(text.length)
    return text
  }

  #spend(effort: number): void {
    this.#effort += effort
    const most = mostReadings * this.limit
    if (this.#effort > most)
      throw refusedTemplate(`functions that read more than ${most} characters`)
  }

  #step(): void {
    if (++this.#steps > mostSteps) throw refusedTemplate(`more than ${mostSteps} steps`)
  }
}

function tooLong(limit: number): CllmError {
  const message = `template: expected a prompt of at most ${limit} characters and ${mostPieces} parts, instead got more`
  return new CllmError('invalid_request', message, { details: { field: 'template', limit } })
}
