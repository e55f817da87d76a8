import type { OutputConstraint } from '@cllm/core'
import { callsSchema } from './calls-schema.js'
import type { ToolFormat } from './chat-format.js'
import type { AnswerForm } from './answer/create-answer-parser.js'
import type { ToolDefinition } from './tool-prompt.js'

/**
 * Constrains tool calls to their schemas in an answer that may also be text; the constraint starts
 * where a call starts. An answer that begins with `{` (Mistral: `[`) counts as a call, unless the
 * model's calls have marks of their own.
 *
 * @param strict - the tools whose arguments must match their schemas; other tools take any object
 */
export function strictCalls(
  tools: readonly ToolDefinition[],
  strict: readonly string[],
  format: ToolFormat,
  form: AnswerForm,
): OutputConstraint {
  const shown = tools.map((tool) =>
    strict.includes(tool.function.name) ? tool : withoutSchema(tool),
  )
  const thoughts = thoughtsOf(form)
  const isSingle = form.mostCalls === 1
  const type = 'triggered-json'
  switch (format) {
    case 'hermes':
      return {
        type,
        trigger: `^${thoughts}[\\s\\S]*?<tool_call>`,
        schema: callsSchema(shown),
        closing: '</tool_call>',
        ...(isSingle ? {} : { next: '<tool_call>' }),
      }
    case 'mistral': {
      const items = callsSchema(shown, 'arguments', '#/items')
      const schema = { type: 'array', items, minItems: 1, ...(isSingle ? { maxItems: 1 } : {}) }
      return { type, trigger: `^${thoughts}\\s*(?=\\[)`, schema }
    }
    case 'llama3':
    case 'generic': {
      const schema = callsSchema(shown, format === 'llama3' ? 'parameters' : 'arguments')
      return { type, trigger: `^${thoughts}\\s*(?=\\{)`, schema }
    }
  }
}

/** The reasoning before an answer, as part of a regular expression. */
function thoughtsOf({ thinks, thinkingIsOpen }: AnswerForm): string {
  if (thinkingIsOpen) return '[\\s\\S]*?</think>'
  return thinks ? '(?:\\s*<think>[\\s\\S]*?</think>|(?!\\s*<think>))' : ''
}

const withoutSchema = ({ type, function: { name } }: ToolDefinition): ToolDefinition => ({
  type,
  function: { name },
})
