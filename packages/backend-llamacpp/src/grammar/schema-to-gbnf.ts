import type { JsonSchema } from '@cllm/core'
import { areDisjoint } from './disjoint.js'
import { GbnfWriter } from './gbnf-writer.js'
import { jsonRule } from './json-rules.js'
import { refusedSchema } from './refuse.js'
import { SchemaCompiler } from './schema-compiler.js'
import { SchemaDocument } from './schema-document.js'

/**
 * A grammar whose every text is JSON that is valid by the schema. It may allow less than the schema
 * (members come in the schema's order, whitespace is bounded), never more: what cannot be kept to is
 * refused.
 * @throws CllmError `invalid_constraint` naming the keyword and its JSON pointer
 */
export function schemaToGbnf(schema: JsonSchema): string {
  const writer = new GbnfWriter()
  const document = new SchemaDocument(schema, areDisjoint)
  const root = new SchemaCompiler(document, writer).compile([document.root])
  if (root === undefined) throw refusedSchema('#', 'nothing is valid by it')
  writer.define('root', root)
  return writer.toString()
}

/** A grammar of JSON objects. */
export function jsonGbnf(): string {
  const writer = new GbnfWriter()
  writer.define('root', jsonRule(writer, 'object'))
  return writer.toString()
}
