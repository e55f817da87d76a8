import type { Backend } from '../../contracts/model/backend.js'
import type { OutputConstraint, SurroundedJson } from '../../contracts/model/output-constraint.js'
import { CllmError } from '../../errors/cllm-error.js'
import { invalidField } from './check-fields.js'

/** The part of a backend that validates constraints. */
export type ConstraintJudge = Pick<Backend, 'capabilities' | 'checkConstraint'>

const types = ['gbnf', 'regex', 'json', 'json-schema', 'triggered-json']

/** Throws `invalid_request`, `unsupported` or what the backend has against the constraint. */
export function checkConstraint(
  constraint: OutputConstraint | undefined,
  backend: ConstraintJudge,
): void {
  if (constraint === undefined) return
  checkShape(constraint)
  if (!backend.capabilities.grammar || backend.checkConstraint === undefined) {
    const message = 'constraint: this backend does not support grammars or schemas'
    throw new CllmError('unsupported', message, {
      details: { field: 'constraint', capability: 'grammar' },
    })
  }
  backend.checkConstraint(constraint)
}

function checkShape(constraint: OutputConstraint): void {
  if (typeof constraint !== 'object' || constraint === null) {
    throw invalidField('constraint', 'an object', constraint)
  }
  const { type } = constraint
  if (!types.includes(type))
    throw invalidField('constraint.type', `one of ${types.join(', ')}`, type)
  if (type === 'gbnf') {
    const { grammar, root = 'root' } = constraint
    if (typeof grammar !== 'string') throw invalidField('constraint.grammar', 'a text', grammar)
    if (typeof root !== 'string') throw invalidField('constraint.root', 'a text', root)
  }
  if (type === 'regex' && typeof constraint.pattern !== 'string') {
    throw invalidField('constraint.pattern', 'a text', constraint.pattern)
  }
  if (type === 'triggered-json') checkTrigger(constraint)
  if (type === 'json-schema' || type === 'triggered-json') {
    checkJson(constraint, 'constraint')
    for (
      let { or } = constraint, at = 'constraint.or';
      or !== undefined;
      { or } = or, at += '.or'
    ) {
      if (typeof or !== 'object' || or === null) throw invalidField(at, 'an object', or)
      checkJson(or, at)
    }
  }
}

function checkJson(
  { schema, before = '', closing = '', next = '' }: SurroundedJson,
  field: string,
): void {
  if (!isPattern(before)) throw invalidField(`${field}.before`, 'a regular expression', before)
  if (typeof closing !== 'string') throw invalidField(`${field}.closing`, 'a text', closing)
  if (typeof next !== 'string') throw invalidField(`${field}.next`, 'a text', next)
  const isObject = typeof schema === 'object' && schema !== null && !Array.isArray(schema)
  if (typeof schema === 'boolean' || isObject) return
  throw invalidField(`${field}.schema`, 'a JSON schema: an object, true or false', schema)
}

function checkTrigger({ trigger }: Extract<OutputConstraint, { trigger: unknown }>): void {
  if (!isPattern(trigger)) throw invalidField('constraint.trigger', 'a regular expression', trigger)
}

function isPattern(value: unknown): boolean {
  try {
    return typeof value === 'string' && RegExp(value) instanceof RegExp
  } catch {
    return false
  }
}
