import {
  system,
  user,
  assistant,
  question,
  turns,
  open,
  closed,
  goOn,
  toolJson,
  withTools,
  called,
  lines,
  type TemplateFixture,
} from './conversations.js'

/** ChatML as all of them write it. */
const plain: TemplateFixture['cases'][number] = {
  about: 'a system message and turns',
  messages: turns,
  text: lines(
    '<|im_start|>system\nBe brief.<|im_end|>\n',
    '<|im_start|>user\nHello<|im_end|>\n',
    '<|im_start|>assistant\nHi!<|im_end|>\n',
    '<|im_start|>user\nRain in Paris?<|im_end|>\n<|im_start|>assistant\n',
  ),
}

export const qwen: readonly TemplateFixture[] = [
  {
    name: 'ChatML',
    source: 'the ChatML description of OpenAI',
    compared: true,
    eos: '<|im_end|>',
    controls: ['<|im_start|>'],
    template: `{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}`,
    cases: [
      plain,
      {
        about: 'no opening of an answer',
        messages: [user],
        options: closed,
        text: '<|im_start|>user\nHello<|im_end|>\n',
      },
      {
        about: 'an answer that goes on',
        messages: open,
        options: goOn,
        text: '<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi, I',
      },
    ],
  },
  {
    name: 'Qwen3',
    source: 'the model card of Qwen3 and the function calling guide of Qwen',
    compared: true,
    eos: '<|im_end|>',
    controls: ['<|im_start|>', '<|endoftext|>'],
    template: `
{%- set seen = namespace(question=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set seen.question = loop.index0 %}{%- endif %}{%- endfor %}
{%- if tools %}
  {{- '<|im_start|>system\\n' }}
  {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
  {{- '# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>' }}
  {%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
  {{- '\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
  {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for m in messages %}
  {%- if m.role == 'user' %}
    {{- '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' }}
  {%- elif m.role == 'assistant' %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if loop.index0 > seen.question and (loop.last or m.reasoning_content) %}
      {{- '<think>\\n' + (m.reasoning_content or '') + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- m.content }}
    {%- for c in m.tool_calls or [] %}
      {%- if m.content or not loop.first %}{{- '\\n' }}{%- endif %}
      {{- '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- elif m.role == 'tool' %}
    {%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
    {{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
    {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\\n' }}
  {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}`,
    cases: [
      plain,
      {
        about: 'thinking off',
        messages: [user],
        options: { variables: { enable_thinking: false } },
        text: '<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n',
      },
      {
        about: 'thinking on, and what was thought before a question is not shown again',
        messages: [user, { ...assistant, reasoning_content: 'A greeting.' }, question],
        options: { variables: { enable_thinking: true } },
        text: lines(
          '<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi!<|im_end|>\n',
          '<|im_start|>user\nRain in Paris?<|im_end|>\n<|im_start|>assistant\n',
        ),
      },
      {
        about: 'tools',
        messages: [system, question],
        options: withTools,
        text: lines(
          '<|im_start|>system\nBe brief.\n\n# Tools\n\n',
          'You may call one or more functions to assist with the user query.\n\n',
          'You are provided with function signatures within <tools></tools> XML tags:\n',
          `<tools>\n${toolJson}\n</tools>\n\n`,
          'For each function call, return a json object with function name and arguments within ',
          '<tool_call></tool_call> XML tags:\n<tool_call>\n',
          '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n',
          '<|im_start|>user\nRain in Paris?<|im_end|>\n<|im_start|>assistant\n',
        ),
      },
      {
        about: 'a call and its result',
        messages: called,
        text: lines(
          '<|im_start|>user\nRain in Paris?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n',
          '{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call><|im_end|>\n',
          '<|im_start|>user\n<tool_response>\n"rain"\n</tool_response><|im_end|>\n',
          '<|im_start|>assistant\n',
        ),
      },
      {
        about: 'an answer that goes on',
        messages: open,
        options: goOn,
        text: lines(
          '<|im_start|>user\nHello<|im_end|>\n',
          '<|im_start|>assistant\n<think>\n\n</think>\n\nHi, I',
        ),
      },
    ],
  },
]
