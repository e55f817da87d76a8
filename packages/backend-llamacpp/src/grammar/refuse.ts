import { CllmError } from '@cllm/core'

/** Limits on what a grammar costs, as grammars come from clients. */
export const grammarLimits = {
  /** Characters of the text: what llama.cpp still takes in within milliseconds. */
  characters: 200_000,
  /** Groups inside each other. */
  depth: 100,
  /** llama.cpp's `MAX_REPETITION_THRESHOLD`, of rules that one repetition makes. */
  repetitions: 2000,
  /** Elements of all rules once repetitions are written out. */
  elements: 120_000,
  /** Elements that repetitions are of, together: each copies its own. */
  copied: 2_000_000,
  /** Readings of a text at one point. */
  readings: 1000,
  /** Steps from one character to what may follow it. */
  advanceSteps: 20_000,
  /** Characters compared with elements to find the tokens that may come next… */
  comparisons: 3_000_000,
  /** … plus this many for each byte of the vocabulary. */
  comparisonsPerByte: 5,
} as const

/**
 * The error for a constraint that cannot be honoured.
 * @param what - is wrong, of which the reason says more
 */
export function refused(
  what: string,
  reason: string,
  details: Readonly<Record<string, unknown>> = {},
): CllmError {
  return new CllmError('invalid_constraint', `${what}: ${reason}`, {
    details: { field: 'constraint', ...details, reason },
  })
}

/**
 * The error for what in a schema cannot be honoured.
 * @param pointer - the JSON pointer of the keyword or schema, as a URI fragment
 */
export function refusedSchema(pointer: string, reason: string): CllmError {
  // what is made of a schema stands behind ^, which no pointer has
  const [at = pointer] = pointer.split('^')
  return refused(`The JSON schema cannot be kept to: ${at}`, reason, { pointer: at })
}

/** What is expected of a schema that is beyond a limit. */
export const smaller =
  'Expected fewer or smaller properties, enums, lengths, counts, patterns and alternatives'

/** The errors for strings that cannot be written, in whose place others may be. */
const unkept = new WeakSet<CllmError>()

/** The error for strings that output cannot be kept to. */
export function refusedStrings(pointer: string, reason: string): CllmError {
  const error = refusedSchema(pointer, reason)
  unkept.add(error)
  return error
}

/** Whether an error says that strings cannot be kept to, and nothing else. */
export const isOfStrings = (error: unknown): error is CllmError =>
  error instanceof CllmError && unkept.has(error)

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
