import { ollamaFunctions } from './ollama-functions.js'
import { type Operand, parseTemplate, type TemplateNode } from './parse-template.js'
import { refusedTemplate } from './template-tokens.js'
import { jsonText, shownText, templateFunctions } from './template-values.js'

/** Those that are called with what their arguments are, and not with all of their values. */
export const lazyFunctions: readonly string[] = ['and', 'or']

const known: ReadonlySet<string> = new Set([
  ...lazyFunctions,
  ...Object.keys(templateFunctions(shownText, jsonText)),
  ...Object.keys(ollamaFunctions(0)),
])

/**
 * Whether a template can be rendered, as far as that is known before.
 *
 * @throws `unsupported` for what is no template, or calls a function that there is not
 */
export function checkTemplate(template: string): void {
  for (const node of parseTemplate(template)) checkNode(node)
}

function checkNode(node: TemplateNode): void {
  if ('pipeline' in node) {
    for (const operand of node.pipeline.flat()) checkOperand(operand)
  }
  if ('body' in node) for (const inner of [...node.body, ...node.otherwise]) checkNode(inner)
}

function checkOperand(operand: Operand): void {
  if (operand.type === 'function' && !known.has(operand.name)) {
    throw refusedTemplate(`the function ${operand.name}`)
  }
  if (operand.type === 'field') checkOperand(operand.of)
  if (operand.type === 'pipeline') for (const inner of operand.pipeline.flat()) checkOperand(inner)
}
