import type { ChatMessage, ChatToolCall } from '@cllm/core'

type Call = ChatToolCall['function']

/** How the models of a family write a conversation, after their published templates. */
export interface Family {
  readonly name: string
  /** What its template says besides, as far as that tells how it writes. */
  readonly source: string
  readonly turn: (role: string, text: string) => string
  readonly opening: string
  readonly closing: string
  readonly calls: (calls: readonly Call[]) => string
  readonly thoughts?: readonly [open: string, close: string]
  /** Around the text of an answer. */
  readonly words?: readonly [open: string, close: string]
}

const chatMl = {
  turn: (role: string, text: string) => `<|start_of|>${role}\n${text}<|end_of|>\n`,
  opening: '<|start_of|>assistant\n',
  closing: '<|end_of|>\n',
}
const headers = {
  turn: (role: string, text: string) => `<|header|>${role}<|/header|>\n\n${text}<|eot|>`,
  opening: '<|header|>assistant<|/header|>\n\n',
  closing: '<|eot|>',
}
const think = ['<think>\n', '\n</think>\n\n'] as const
const each = (write: (call: Call, index: number) => string, between = '') => ({
  calls: (calls: readonly Call[]) => calls.map(write).join(between),
})
const pairs = (given: Call['arguments'], write: (key: string, value: string) => string) =>
  Object.entries(given)
    .map(([key, value]) => write(key, typeof value === 'string' ? value : JSON.stringify(value)))
    .join('')

/** Ten of them, which differ in how they write calls, thoughts and turns. */
export const families: readonly Family[] = [
  {
    name: 'Qwen3',
    ...chatMl,
    source: '<think>',
    thoughts: think,
    ...each((call) => `<tool_call>\n${JSON.stringify(call)}\n</tool_call>`, '\n'),
  },
  {
    name: 'Qwen3-Coder',
    ...chatMl,
    source: '',
    ...each(
      ({ name, arguments: given }) =>
        `<tool_call>\n<function=${name}>\n${pairs(given, (key, value) => `<parameter=${key}>\n${value}\n</parameter>\n`)}</function>\n</tool_call>`,
      '\n',
    ),
  },
  {
    name: 'Llama 3',
    ...headers,
    source: '',
    ...each(({ name, arguments: parameters }) => JSON.stringify({ name, parameters }), ';'),
  },
  {
    name: 'Mistral',
    source: '[TOOL_CALLS]',
    turn: (role, text) =>
      role === 'user' ? `[INST]${text}[/INST]` : `[${role.toUpperCase()}]${text}`,
    opening: '',
    closing: '<|eos|>',
    calls: (calls) => `[TOOL_CALLS]${JSON.stringify(calls)}`,
  },
  {
    name: 'DeepSeek',
    source: '<think>',
    turn: (role, text) => `<｜${role}｜>${text}`,
    opening: '<｜Assistant｜>',
    closing: '<｜end▁of▁sentence｜>',
    thoughts: think,
    calls: (calls) =>
      `<｜tool▁calls▁begin｜>${calls
        .map(
          ({ name, arguments: given }) =>
            `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${JSON.stringify(given)}\n\`\`\`<｜tool▁call▁end｜>`,
        )
        .join('\n')}<｜tool▁calls▁end｜>`,
  },
  {
    name: 'GLM',
    ...chatMl,
    source: '<think>',
    thoughts: think,
    ...each(
      ({ name, arguments: given }) =>
        `<tool_call>${name}\n${pairs(given, (key, value) => `<arg_key>${key}</arg_key>\n<arg_value>${value}</arg_value>\n`)}</tool_call>`,
      '\n',
    ),
  },
  {
    name: 'Command R7B',
    ...headers,
    source: '<|START_THINKING|><|END_THINKING|>',
    thoughts: ['<|START_THINKING|>', '<|END_THINKING|>'],
    words: ['<|START_RESPONSE|>', '<|END_RESPONSE|>'],
    calls: (calls) =>
      `<|START_ACTION|>${JSON.stringify(
        calls.map(({ name, arguments: parameters }, id) => ({
          tool_call_id: String(id),
          tool_name: name,
          parameters,
        })),
      )}<|END_ACTION|>`,
  },
  {
    name: 'Granite',
    ...headers,
    source: '',
    calls: (calls) => `<|tool_call|>${JSON.stringify(calls)}`,
  },
  {
    name: 'Kimi K2',
    ...headers,
    source: '',
    calls: (calls) =>
      `<|tool_calls_section_begin|>${calls
        .map(
          ({ name, arguments: given }, index) =>
            `<|tool_call_begin|>functions.${name}:${index}<|tool_call_argument_begin|>${JSON.stringify(given)}<|tool_call_end|>`,
        )
        .join('')}<|tool_calls_section_end|>`,
  },
  {
    name: 'gpt-oss',
    source: '<|channel|>analysis <|start|> <|message|>',
    turn: (role, text) => `<|start|>${role}<|message|>${text}<|end|>`,
    opening: '<|start|>assistant',
    closing: '<|return|>',
    thoughts: ['<|channel|>analysis<|message|>', '<|end|><|start|>assistant'],
    words: ['<|channel|>final<|message|>', ''],
    ...each(
      ({ name, arguments: given }) =>
        `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${JSON.stringify(given)}<|call|>`,
    ),
  },
]

/** What a model of the family writes to say this. */
export function written(family: Family, message: Omit<ChatMessage, 'role'>): string {
  const [think = '', thought = ''] = family.thoughts ?? []
  const [open = '', close = ''] = family.words ?? []
  const { content, reasoning_content: reasoning = '', tool_calls: calls = [] } = message
  return (
    (reasoning === '' || think === '' ? '' : think + reasoning + thought) +
    (content === '' ? '' : open + content + close) +
    (calls.length === 0 ? '' : family.calls(calls.map((call) => call.function)))
  )
}

/** A conversation as the family's template writes it. */
export function rendered(
  family: Family,
  messages: readonly ChatMessage[],
  addGenerationPrompt: boolean,
): string {
  const turns = messages.map((message) =>
    message.role === 'assistant'
      ? family.opening + written(family, message) + family.closing
      : family.turn(message.role, message.content),
  )
  return turns.join('') + (addGenerationPrompt ? family.opening : '')
}
