import { CllmError } from '@cllm/core/errors'

/** Limits on the cost of a grammar, as grammars come from clients. */
export const grammarLimits = {
  /** Steps to compile a schema or a regular expression: about 100 ms. */
  steps: 250_000,
  /** What a step that is not on a pattern counts as. */
  plainStep: 1,
  /** Characters of the text: as many as llama.cpp can still read within milliseconds. */
  characters: 200_000,
  /** The depth of nested groups. */
  depth: 100,
  /** Rules that one repetition becomes: llama.cpp's `MAX_REPETITION_THRESHOLD`. */
  repetitions: 2000,
  /** Elements of all rules with repetitions written out. */
  elements: 120_000,
  /** Elements that all repetitions together copy when they are read. */
  copied: 2_000_000,
  /** Ways to read a text up to one point. */
  readings: 1000,
  /** Steps from one character to what may follow it. */
  advanceSteps: 20_000,
  /** Characters compared with elements to find the tokens that may come next… */
  comparisons: 3_000_000,
  /** … plus this many for each byte of the vocabulary. */
  comparisonsPerByte: 5,
} as const

/** Limits on the work of compiling a constraint. */
export type WorkLimits = Readonly<
  Record<'steps' | 'plainStep' | 'characters' | 'elements' | 'copied' | 'comparisons', number>
>

/** What the engine's thread does at most, as streams wait for it: about 50 ms while its code is cold. */
export const littleWork: WorkLimits = {
  steps: 25_000,
  // while the code is cold, one on a pattern takes twice the time
  plainStep: 0.5,
  characters: 40_000,
  elements: 20_000,
  copied: 100_000,
  comparisons: 200_000,
}

/** Thrown where {@link littleWork} is exceeded. Not a CllmError, which the compiler may catch to go on otherwise. */
export class MoreWork extends Error {}

/**
 * Ends work of a kind that exceeds its limit: it is refused only if it exceeds that of any thread.
 * @throws MoreWork or CllmError
 */
export function checkWork(
  kind: keyof WorkLimits,
  done: number,
  limits: WorkLimits,
  refuse: (limit: number) => CllmError,
): void {
  if (done <= limits[kind]) return
  const most = grammarLimits[kind]
  throw done > most ? refuse(most) : new MoreWork()
}

/**
 * The error for a constraint that cannot be honoured.
 * @param what - what is wrong, as the beginning of the message
 * @param reason - why, as its end
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
 * The error for a part of a schema that cannot be honoured.
 * @param pointer - the JSON pointer of the keyword or schema, as a URI fragment
 */
export function refusedSchema(pointer: string, reason: string): CllmError {
  // schemas that the compiler derives have a name with ^ behind the pointer; no real pointer contains ^
  const [at = pointer] = pointer.split('^')
  return refused(`The JSON schema cannot be kept to: ${at}`, reason, { pointer: at })
}

/** The advice in errors for schemas beyond a limit. */
export const smaller =
  'Expected fewer or smaller properties, enums, lengths, counts, patterns and alternatives'

/** Errors for strings that a grammar cannot express; other alternatives may be used instead. */
const unkept = new WeakSet<CllmError>()

/** The error for strings that a grammar cannot express. */
export function refusedStrings(pointer: string, reason: string): CllmError {
  const error = refusedSchema(pointer, reason)
  unkept.add(error)
  return error
}

/** Whether an error comes from {@link refusedStrings}. */
export const isOfStrings = (error: unknown): error is CllmError =>
  error instanceof CllmError && unkept.has(error)

/** Called with a number of steps before they are done; throws if they exceed the budget. */
export type Spend = (steps: number) => void

/**
 * Limits the work on a schema. With references, a small schema can ask for any amount of work: 25 definitions, each
 * `allOf` the next one twice, are 2^25 schemas.
 */
export class SchemaBudget {
  #done = 0

  constructor(private readonly limits: WorkLimits = grammarLimits) {}

  /**
   * @param pointer - the part of the schema being processed
   * @throws CllmError `invalid_constraint` if the budget is exceeded
   */
  spend(steps: number, pointer: string): void {
    this.#spend(this.limits.plainStep * steps, pointer)
  }

  /** Returns a function that spends steps on a pattern at one part of the schema. */
  at(pointer: string): Spend {
    return (steps) => this.#spend(steps, pointer)
  }

  #spend(steps: number, pointer: string): void {
    this.#done += steps
    if (this.#done <= this.limits.steps) return // without a closure, as this is called often
    checkWork('steps', this.#done, this.limits, (limit) => {
      const shown = pointer.length > 200 ? `${pointer.slice(0, 200)}…` : pointer
      const reason = `up to here the schema takes more than ${limit} steps to compile`
      return refusedSchema(shown, `${reason}. ${smaller}`)
    })
  }
}
