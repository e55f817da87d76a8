import type { AST } from '@eslint-community/regexpp'
import { PatternProblem } from './parse-pattern.js'
import type { Spend } from '../schema/schema-budget.js'

const mostStates = 20_000

/** A state of an automaton: what it takes or demands, if anything, and where it leads. */
export type PatternState<Label> = Label & { readonly next: number[] }

/**
 * The states of an automaton, built from its end to its beginning (Thompson, "Regular expression search
 * algorithm", 1968). State 0 is the last one.
 */
export class PatternStates<Label extends object> {
  readonly all: PatternState<Label>[]

  /**
   * @param nothing - the label of states that take and demand nothing
   * @param element - adds the states of an element that lead on to `next`, and returns the first
   * @param spend - called for each element as often as it is repeated, which may add no state, and for
   *   each way out of a state
   * @param where - what a problem's message begins with
   */
  constructor(
    private readonly nothing: Label,
    private readonly element: (element: AST.Element, next: number) => number,
    private readonly spend: Spend,
    private readonly where = '',
  ) {
    this.all = [{ ...nothing, next: [] }]
  }

  /** @throws PatternProblem when there are too many */
  add(label: Label, next: readonly number[]): number {
    if (this.all.length === mostStates) {
      throw new PatternProblem(`${this.where}it needs more than ${mostStates} states`)
    }
    this.spend(next.length)
    // what may be empty in many ways leads on in one
    return this.all.push({ ...label, next: [...new Set(next)] }) - 1
  }

  /** A state that is left at once. */
  fork(next: readonly number[]): number {
    return this.add(this.nothing, next)
  }

  /** Elements one after the other, then `next`. */
  sequence(elements: readonly AST.Element[], next: number): number {
    return elements.reduceRight((after, element) => this.#before(element, after), next)
  }

  /** A quantifier's element as often as it says, then `next`. */
  repeat({ element, min, max }: AST.Quantifier, next: number): number {
    let entry = next
    if (max === Infinity) {
      const loop = this.fork([next])
      this.all[loop]!.next.push(this.#before(element, loop))
      entry = loop
    } else {
      for (let nth = min; nth < max; nth++) {
        entry = this.fork([next, this.#before(element, entry)])
      }
    }
    for (let nth = 0; nth < min; nth++) entry = this.#before(element, entry)
    return entry
  }

  #before(element: AST.Element, next: number): number {
    this.spend(1)
    return this.element(element, next)
  }
}
