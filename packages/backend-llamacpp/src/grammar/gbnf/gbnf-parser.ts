import { entryOf } from '@cllm/core/defined'
import { checkRecursion, ElementKind, type GbnfRules } from './gbnf-rules.js'
import { type Amount, GbnfReader, type NamedTokens } from './gbnf-reader.js'
import { checkWork, grammarLimits, type WorkLimits } from '../refuse.js'

/** The elements of a rule, as pairs of kind and value. */
type Rule = number[]

/**
 * Reads GBNF as llama.cpp does (`llama_grammar_parser`), into the same rules, and checks their number before it makes
 * them.
 * @throws CllmError `invalid_constraint` with line and column, or with the left-recursive rules
 */
export function parseGbnf(
  grammar: string,
  root: string,
  tokens?: NamedTokens,
  limits: WorkLimits = grammarLimits,
): GbnfRules {
  const rules = new GbnfParser(new GbnfReader(grammar, tokens, limits), limits).parse(root)
  checkRecursion(rules)
  return rules
}

class GbnfParser {
  readonly #rules: (Rule | undefined)[] = []
  readonly #names: string[] = []
  readonly #numbers = new Map<string, number>()
  /** By rule: where it was first used. */
  readonly #used = new Map<number, number>()
  /** The name of the rule that is being read; its groups get the same name. */
  #name = ''
  #elements = 0
  #copied = 0

  constructor(
    private readonly reader: GbnfReader,
    private readonly limits: WorkLimits,
  ) {}

  parse(root: string): GbnfRules {
    this.reader.skipSpace(true)
    while (!this.reader.isAtEnd) this.#rule()
    const undefinedAt = [...this.#used].find(([number]) => this.#rules[number] === undefined)
    if (undefinedAt !== undefined) {
      throw this.reader.problem(`there is no rule ${this.#names[undefinedAt[0]]}`, undefinedAt[1])
    }
    const rootNumber = this.#numbers.get(root)
    if (rootNumber === undefined) throw this.reader.problem(`there is no rule ${root}`)
    return this.#flat(rootNumber)
  }

  #rule(): void {
    const start = this.reader.at
    const name = this.reader.name()
    if (name === undefined) throw this.reader.unexpected(start)
    this.reader.skipSpace(false)
    if (!this.reader.take('::=')) throw this.reader.unexpected()
    this.reader.skipSpace(true)
    const number = this.#number(name)
    this.#name = name
    this.#rules[number] = this.#alternatives(0)
    if (!this.reader.isAtEnd && !this.reader.takesLineEnd()) {
      throw this.reader.sees(')')
        ? this.reader.problem('a closing parenthesis without an opening one')
        : this.reader.unexpected()
    }
    this.reader.skipSpace(true)
  }

  #alternatives(depth: number): Rule {
    const rule: Rule = []
    this.#sequence(rule, depth)
    while (this.reader.take('|')) {
      this.reader.skipSpace(true)
      this.#add(rule, ElementKind.Alternative, 0)
      this.#sequence(rule, depth)
    }
    this.#add(rule, ElementKind.End, 0)
    return rule
  }

  #sequence(rule: Rule, depth: number): void {
    /** Where the last element, which a repetition repeats, begins in the rule. */
    let last = rule.length
    /** The number of rules that repetitions have made of it. */
    let made = 1
    for (;;) {
      const at = this.reader.at
      const repetition = this.reader.repetition(depth > 0)
      if (repetition !== undefined) {
        this.reader.skipSpace(depth > 0)
        made *= this.#repeat(rule, last, made, repetition, at)
        continue
      }
      const start = rule.length
      const before = this.#names.length
      if (!this.#element(rule, depth)) return
      last = start
      made = Math.max(1, this.#names.length - before)
      if (this.#isReference(rule, start)) made = 1
      this.reader.skipSpace(depth > 0)
    }
  }

  /** Whether the element at this place names a rule of the text, whose own rules do not count. */
  #isReference(rule: Rule, at: number): boolean {
    return rule[at] === ElementKind.Rule && this.#used.has(rule[at + 1] ?? -1)
  }

  /** Reads one literal, set, token, name or group; returns false if there is none. */
  #element(rule: Rule, depth: number): boolean {
    const at = this.reader.at
    const add = (kind: number, value: number) => this.#add(rule, kind, value)
    if (this.reader.literal((code) => add(ElementKind.Character, code))) return true
    if (this.reader.set(add) || this.reader.token(add)) return true
    if (this.reader.take('.')) {
      add(ElementKind.AnyCharacter, 0)
      return true
    }
    const used = this.reader.name()
    if (used !== undefined) {
      const number = this.#number(used)
      if (!this.#used.has(number)) this.#used.set(number, at)
      add(ElementKind.Rule, number)
      return true
    }
    if (!this.reader.take('(')) return false
    if (depth === grammarLimits.depth) {
      throw this.reader.problem(`groups are nested deeper than ${grammarLimits.depth}`, at)
    }
    this.reader.skipSpace(true)
    const number = this.#newRule(this.#name)
    this.#rules[number] = this.#alternatives(depth + 1)
    if (!this.reader.take(')')) {
      throw this.reader.isAtEnd
        ? this.reader.problem('a parenthesis is not closed')
        : this.reader.unexpected()
    }
    add(ElementKind.Rule, number)
    return true
  }

  /** Writes a repetition out as llama.cpp does, and returns the number of rules it becomes. */
  #repeat(rule: Rule, last: number, made: number, { min, max }: Amount, at: number): number {
    if (last === rule.length) throw this.reader.problem('there is nothing that it repeats', at)
    if (max < min) throw this.reader.problem(`a repetition from ${min} to ${max} has no end`, at)
    const isBounded = max !== Infinity
    const times = Math.max(1, isBounded ? max : min)
    if (made * times > grammarLimits.repetitions) {
      throw this.reader.problem(`more than ${grammarLimits.repetitions} repetitions`, at)
    }
    // llama.cpp copies the repeated elements even for {1}, which may come many times behind one element
    this.#copied += (rule.length - last) / 2
    checkWork('copied', this.#copied, this.limits, (limit) =>
      this.reader.problem(`the repetitions are of more than ${limit} elements together`, at),
    )
    const repeated = rule.slice(last)
    const size = repeated.length / 2
    const optional = isBounded ? max - min : 1
    this.#count(Math.max(0, min - 1) * size + optional * (size + 3), at)
    if (min === 0) rule.length = last
    // Not spread: a list of this length would not fit on the stack.
    for (let nth = 1; nth < min; nth++) for (const part of repeated) rule.push(part)
    let rest: number | undefined
    for (let nth = 0; nth < optional; nth++) {
      const number = this.#newRule(this.#name)
      const again = isBounded ? rest : number
      const tail = again === undefined ? [] : [ElementKind.Rule, again]
      this.#rules[number] = [...repeated, ...tail, ElementKind.Alternative, 0, ElementKind.End, 0]
      rest = number
    }
    if (rest !== undefined) rule.push(ElementKind.Rule, rest)
    return times
  }

  #add(rule: Rule, kind: number, value: number): void {
    this.#count(1, this.reader.at)
    rule.push(kind, value)
  }

  #count(elements: number, at: number): void {
    this.#elements += elements
    if (this.#elements <= this.limits.elements) return // without a closure
    checkWork('elements', this.#elements, this.limits, (limit) => {
      const all = 'with its repetitions written out the grammar has'
      return this.reader.problem(`${all} more than ${limit} elements`, at)
    })
  }

  #number(name: string): number {
    return entryOf(this.#numbers, name, () => this.#newRule(name))
  }

  #newRule(name: string): number {
    this.#rules.push(undefined)
    return this.#names.push(name) - 1
  }

  #flat(root: number): GbnfRules {
    const total = this.#rules.reduce((sum, rule = []) => sum + rule.length / 2, 0)
    const kinds = new Uint8Array(total)
    const values = new Uint32Array(total)
    const starts = new Uint32Array(this.#rules.length)
    let at = 0
    for (const [number, rule = []] of this.#rules.entries()) {
      starts[number] = at
      for (let index = 0; index < rule.length; index += 2) {
        kinds[at] = rule[index]!
        values[at++] = rule[index + 1]!
      }
    }
    return { kinds, values, starts, names: this.#names, root }
  }
}
