const generation = (begin: string): string => `{% if add_generation_prompt %}${begin}{% endif %}`

/** A template that writes each message in the same way. */
const each = (message: string, begin: string): string =>
  `{% for message in messages %}${message}{% endfor %}${generation(begin)}`

/** One that writes a turn by who says it. */
const byRole = (
  { system, user, assistant }: Readonly<Record<'system' | 'user' | 'assistant', string>>,
  begin = '',
): string =>
  each(
    `{% if message.role == 'system' %}${system}{% elif message.role == 'assistant' %}${assistant}` +
      `{% else %}${user}{% endif %}`,
    begin,
  )

const role = '{{ message.role }}'
const content = '{{ message.content }}'
const trimmed = '{{ message.content | trim }}'

/** Mistral's: what the system says stands in the turn of the user behind it. */
const mistral = (leading: string, trailing: string, answer: string): string =>
  '{% set turn = namespace(open=false) %}{% for message in messages %}' +
  `{% if not turn.open %}${leading}[INST]${trailing}{% set turn.open = true %}{% endif %}` +
  `{% if message.role == 'system' %}${content}{{ '\\n\\n' }}` +
  `{% elif message.role == 'assistant' %}${trailing}${answer}</s>{% set turn.open = false %}` +
  `{% else %}${content}${leading}[/INST]{% endif %}{% endfor %}`

const mistral7 = (space: string): string =>
  byRole({
    system: `[SYSTEM_PROMPT]${space}${content}[/SYSTEM_PROMPT]`,
    user: `[INST]${space}${content}[/INST]`,
    assistant: `${space}${content}</s>`,
  })

const llama2 = (before: string, behind: string): string =>
  '{% set turn = namespace(open=true) %}[INST] {% for message in messages %}' +
  '{% if not turn.open %}[INST] {% set turn.open = true %}{% endif %}' +
  `{% if message.role == 'system' %}${before}${content}${behind}` +
  `{% elif message.role == 'assistant' %}${content}</s>{% set turn.open = false %}` +
  `{% else %}${content} [/INST]{% endif %}{% endfor %}`

const commandTurn = (who: string) => `<|START_OF_TURN_TOKEN|><|${who}_TOKEN|>`
const command = (who: string) => `${commandTurn(who)}${trimmed}<|END_OF_TURN_TOKEN|>`

// what ends a line would be cut off behind a block
const line = "{{ '\\n' }}"
const lines = "{{ '\\n\\n' }}"

/** What a turn of Gemma's begins with; it has no system's, so that goes before the first user's. */
const gemma =
  `{% set system = namespace(text='') %}{% for message in messages %}` +
  `{% if message.role == 'system' %}{% set system.text = system.text + (message.content | trim) %}` +
  `{% elif message.role == 'assistant' %}<start_of_turn>model${line}${trimmed}<end_of_turn>${line}` +
  `{% else %}<start_of_turn>${role}${line}` +
  `{% if system.text %}{{ system.text }}${lines}{% set system.text = '' %}{% endif %}` +
  `${trimmed}<end_of_turn>${line}{% endif %}{% endfor %}${generation(`<start_of_turn>model${line}`)}`

/**
 * The chat templates that llama-server knows by name, for `--chat-template NAME`: those in use. They
 * write what its own do.
 */
const templates: ReadonlyMap<string, string> = new Map([
  [
    'chatml',
    each(`<|im_start|>${role}${line}${content}<|im_end|>${line}`, `<|im_start|>assistant${line}`),
  ],
  [
    'command-r',
    byRole(
      { system: command('SYSTEM'), user: command('USER'), assistant: command('CHATBOT') },
      commandTurn('CHATBOT'),
    ),
  ],
  [
    'deepseek',
    byRole(
      {
        system: content,
        user: `### Instruction:${line}${content}${line}`,
        assistant: `### Response:${line}${content}${line}<|EOT|>${line}`,
      },
      `### Response:${line}`,
    ),
  ],
  [
    'deepseek2',
    byRole(
      {
        system: `${content}${lines}`,
        user: `User: ${content}${lines}`,
        assistant: `Assistant: ${content}<｜end▁of▁sentence｜>`,
      },
      'Assistant:',
    ),
  ],
  [
    'deepseek3',
    byRole(
      {
        system: `${content}${lines}`,
        user: `<｜User｜>${content}`,
        assistant: `<｜Assistant｜>${content}<｜end▁of▁sentence｜>`,
      },
      '<｜Assistant｜>',
    ),
  ],
  [
    'exaone3',
    byRole(
      {
        system: `[|system|]${trimmed}[|endofturn|]${line}`,
        user: `[|user|]${trimmed}${line}`,
        assistant: `[|assistant|]${trimmed}[|endofturn|]${line}`,
      },
      '[|assistant|]',
    ),
  ],
  ['falcon3', each(`<|${role}|>${line}${content}${line}`, `<|assistant|>${line}`)],
  ['gemma', gemma],
  [
    'granite',
    each(
      `<|start_of_role|>${role}<|end_of_role|>${content}<|end_of_text|>${line}`,
      '<|start_of_role|>assistant<|end_of_role|>',
    ),
  ],
  ['llama2', llama2('', line)],
  ['llama2-sys', llama2(`<<SYS>>${line}`, `${line}<</SYS>>${lines}`)],
  [
    'llama3',
    each(
      `<|start_header_id|>${role}<|end_header_id|>${lines}${trimmed}<|eot_id|>`,
      `<|start_header_id|>assistant<|end_header_id|>${lines}`,
    ),
  ],
  ['mistral-v1', mistral(' ', ' ', content)],
  ['mistral-v3', mistral('', ' ', trimmed)],
  ['mistral-v3-tekken', mistral('', '', content)],
  ['mistral-v7', mistral7(' ')],
  ['mistral-v7-tekken', mistral7('')],
  [
    'openchat',
    byRole(
      {
        system: `${content}<|end_of_turn|>`,
        user: `GPT4 Correct User: ${content}<|end_of_turn|>`,
        assistant: `GPT4 Correct Assistant: ${content}<|end_of_turn|>`,
      },
      'GPT4 Correct Assistant:',
    ),
  ],
  ['phi3', each(`<|${role}|>${line}${content}<|end|>${line}`, `<|assistant|>${line}`)],
  [
    'phi4',
    each(`<|im_start|>${role}<|im_sep|>${content}<|im_end|>`, '<|im_start|>assistant<|im_sep|>'),
  ],
  [
    'vicuna',
    byRole(
      {
        system: `${content}${lines}`,
        user: `USER: ${content}${line}`,
        assistant: `ASSISTANT: ${content}</s>${line}`,
      },
      'ASSISTANT:',
    ),
  ],
  ['zephyr', each(`<|${role}|>${line}${content}<|endoftext|>${line}`, `<|assistant|>${line}`)],
])

/** The Jinja template that llama-server knows by this name; undefined: there is none. */
export const namedTemplate = (name: string): string | undefined => templates.get(name)

/** The names, in the order of the alphabet. */
export const templateNames: readonly string[] = [...templates.keys()]
