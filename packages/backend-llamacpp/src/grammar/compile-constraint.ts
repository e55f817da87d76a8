import type { OutputConstraint } from '@cllm/core'
import { CllmError } from '@cllm/core/errors'
import { parseGbnf } from './gbnf/gbnf-parser.js'
import { grammarText } from './gbnf/gbnf-writer.js'
import { type GrammarTokens, TokenGrammar } from './match/token-grammar.js'
import { regexRule } from './pattern/automaton-rule.js'
import { refused, refusedSchema, SchemaBudget, smaller, type WorkLimits } from './refuse.js'
import { jsonGbnf, schemaToGbnf, triggeredGbnf } from './schema/schema-to-gbnf.js'

/**
 * Compiles a constraint to a grammar that knows the tokens with which its texts begin.
 * @throws CllmError `invalid_constraint`
 */
export function compileConstraint(
  constraint: OutputConstraint,
  tokens: GrammarTokens,
  limits: WorkLimits,
): TokenGrammar {
  return bounded(constraint, () => {
    const root = constraint.type === 'gbnf' ? (constraint.root ?? 'root') : 'root'
    const text = gbnfOf(constraint, new SchemaBudget(limits))
    const grammar = new TokenGrammar(parseGbnf(text, root, tokens, limits), tokens)
    // finds out now whether the grammar takes too long, so that it is refused before any token is computed
    grammar.mask(grammar.begin(), limits)
    return grammar
  })
}

/** Turns failures of `make`, stack overflow included, into `invalid_constraint`. */
export function bounded<T>(constraint: OutputConstraint, make: () => T): T {
  try {
    return make()
  } catch (cause) {
    const isOfSchema = constraint.type === 'json-schema' || constraint.type === 'triggered-json'
    if (cause instanceof RangeError) {
      const reason = 'it is nested too deeply'
      throw isOfSchema ? tooLarge(reason) : refused('The constraint cannot be used', reason)
    }
    if (!CllmError.isInstance(cause) || !isOfSchema) throw cause
    const { pointer, reason } = cause.details
    if (pointer !== undefined || typeof reason !== 'string') throw cause
    throw tooLarge(reason)
  }
}

/** The error if a schema's grammar is refused. It names no place in the grammar, which the author does not know. */
const tooLarge = (reason: string): CllmError =>
  refusedSchema('#', `it becomes too large a grammar: ${reason}. ${smaller}`)

function gbnfOf(constraint: OutputConstraint, budget: SchemaBudget): string {
  switch (constraint.type) {
    case 'gbnf':
      return constraint.grammar
    case 'regex':
      return grammarText((writer) => regexRule(writer, constraint.pattern, budget))
    case 'json':
      return jsonGbnf()
    case 'json-schema':
      return schemaToGbnf(constraint.schema, constraint, budget)
    case 'triggered-json':
      return triggeredGbnf(constraint, budget)
  }
}
