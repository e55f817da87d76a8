import { refusedSchema, smaller } from '../refuse.js'

/** Is called with a number of steps before they are done; throws where they are too many. */
export type Spend = (steps: number) => void

/** Steps in all: about 100 ms. */
const mostSteps = 250_000

/**
 * Counts the work on a schema. References let a small schema ask for any amount of it: 25 definitions,
 * each `allOf` the next one twice, are 2^25 schemas.
 */
export class SchemaBudget {
  #steps = mostSteps

  /**
   * @param pointer - the part of the schema being processed
   * @throws CllmError `invalid_constraint` when the budget is spent
   */
  spend(steps: number, pointer: string): void {
    this.#steps -= steps
    if (this.#steps >= 0) return
    const shown = pointer.length > 200 ? `${pointer.slice(0, 200)}…` : pointer
    const reason = `up to here the schema takes more than ${mostSteps} steps to compile`
    throw refusedSchema(shown, `${reason}. ${smaller}`)
  }

  /** Spends for one part of the schema. */
  at(pointer: string): Spend {
    return (steps) => this.spend(steps, pointer)
  }
}
