import type { JinjaTemplate } from '@cllm/backend-llamacpp'
import type { ChatFormat, ToolDefinition } from '@cllm/http-koa/protocol'

/** The tools that are called. Their arguments are harder than those that formats are learnt from. */
export const tools: readonly ToolDefinition[] = [
  tool('get_weather', { city: 'string', days: 'integer', exact: 'boolean' }),
  tool('write_file', { path: 'string', text: 'string' }),
]

/** The calls that a model is to make. */
export const calls = [
  { name: 'get_weather', arguments: { city: 'São "Paulo" {x}', days: 3, exact: true } },
  { name: 'write_file', arguments: { path: 'src/a-b.ts', text: 'if (a < b) {\n  f("x")\n}' } },
] as const

/** What the answers say beside calls. */
export const words = {
  user: 'Userwords',
  content: 'Contentwords',
  reasoning: 'Thoughtwords',
} as const

/** What a model writes, as far as its template shows it, and how the prompt before it ends. */
export interface ProbeAnswer {
  readonly text: string
  readonly thinkingIsOpen: boolean
}

function tool(name: string, types: Readonly<Record<string, string>>): ToolDefinition {
  const entries = Object.entries(types)
  const properties = Object.fromEntries(
    entries.map(([key, type]) => [key, { type, description: `The ${key}` }]),
  )
  const required = entries.map(([key]) => key)
  return {
    type: 'function',
    function: {
      name,
      description: `Does ${name}`,
      parameters: { type: 'object', properties, required },
    },
  }
}

/** Renders with the variables that a backend gives each template. */
export function renderWith(
  template: JinjaTemplate,
  messages: readonly object[],
  variables: object,
  addGenerationPrompt: boolean,
): string | undefined {
  const values = {
    enable_thinking: true,
    ...variables,
    messages,
    add_generation_prompt: addGenerationPrompt,
    bos_token: '<s>',
    eos_token: '</s>',
  }
  try {
    return template.render(values)
  } catch {
    return undefined
  }
}

/** What the template shows of an answer, from where the prompt for it ends. */
export function answerOf(
  template: JinjaTemplate,
  { thinking }: Pick<ChatFormat, 'thinking'>,
  message: object,
): ProbeAnswer | undefined {
  const user = { role: 'user', content: words.user }
  const variables = { tools }
  const prompt = behindUser(renderWith(template, [user], variables, true))
  const messages = [user, { role: 'assistant', ...message }]
  const shown = behindUser(renderWith(template, messages, variables, false))
  if (prompt === undefined || shown === undefined) return undefined
  const open = thinking?.open ?? ''
  const thinkingIsOpen = open !== '' && prompt.trimEnd().endsWith(open)
  const before = thinkingIsOpen ? prompt.trimEnd().slice(0, -open.length) : prompt
  let same = 0
  while (same < before.length && before[same] === shown[same]) same++
  // not in the middle of a mark that both begin with
  const tag = shown.lastIndexOf('<', same)
  if (same < before.length && tag >= 0 && !shown.slice(tag, same).includes('>')) same = tag
  // reasoning that the prompt has closed, and the answer has not
  const opened = shown.slice(0, same).trimEnd()
  if (!thinkingIsOpen && open !== '' && opened.endsWith(open)) same = opened.length - open.length
  const text = shown.slice(same).trimStart()
  return {
    text: thinkingIsOpen && text.startsWith(open) ? text.slice(open.length) : text,
    thinkingIsOpen,
  }
}

function behindUser(text: string | undefined): string | undefined {
  const at = text?.indexOf(words.user) ?? -1
  return at < 0 ? undefined : text?.slice(at + words.user.length)
}
