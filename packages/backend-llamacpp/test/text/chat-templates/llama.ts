import {
  user,
  turns,
  open,
  closed,
  goOn,
  called,
  lines,
  type TemplateFixture,
} from './conversations.js'

export const llama: readonly TemplateFixture[] = [
  {
    name: 'Llama 3',
    source: 'the prompt format pages of Meta for Llama 3.1; calls after these alone',
    compared: true,
    bos: '<|begin_of_text|>',
    eos: '<|eot_id|>',
    controls: ['<|start_header_id|>', '<|end_header_id|>', '<|end_of_text|>', '<|python_tag|>'],
    template: `{{- bos_token }}
{%- for m in messages %}
  {%- set role = 'ipython' if m.role == 'tool' else m.role %}
  {{- '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' }}
  {%- if m.tool_calls %}
    {%- set called = m.tool_calls[0].function %}
    {{- '{"name": "' + called.name + '", "parameters": ' + (called.arguments | tojson) + '}' }}
  {%- else %}{{- m.content | trim }}{%- endif %}
  {{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}`,
    cases: [
      {
        about: 'a system message and turns',
        messages: turns,
        text: lines(
          '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>',
          '<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>',
          '<|start_header_id|>assistant<|end_header_id|>\n\nHi!<|eot_id|>',
          '<|start_header_id|>user<|end_header_id|>\n\nRain in Paris?<|eot_id|>',
          '<|start_header_id|>assistant<|end_header_id|>\n\n',
        ),
      },
      {
        about: 'no opening of an answer',
        messages: [user],
        options: closed,
        text: '<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>',
      },
      {
        about: 'a call and its result',
        messages: called,
        text: lines(
          '<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nRain in Paris?<|eot_id|>',
          '<|start_header_id|>assistant<|end_header_id|>\n\n',
          '{"name": "weather", "parameters": {"city": "Paris"}}<|eot_id|>',
          '<|start_header_id|>ipython<|end_header_id|>\n\n"rain"<|eot_id|>',
          '<|start_header_id|>assistant<|end_header_id|>\n\n',
        ),
      },
      {
        about: 'an answer that goes on',
        messages: open,
        options: goOn,
        text: lines(
          '<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>',
          '<|start_header_id|>assistant<|end_header_id|>\n\nHi, I',
        ),
      },
    ],
  },
  {
    name: 'TinyLlama',
    source: 'the model card of TinyLlama 1.1B Chat 1.0',
    compared: true,
    bos: '<s>',
    eos: '</s>',
    controls: ['<unk>'],
    template: `{%- for m in messages %}{{- '<|' + m.role + '|>\\n' + m.content + eos_token + '\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}`,
    cases: [
      {
        about: 'a system message and turns',
        messages: turns,
        text: lines(
          '<|system|>\nBe brief.</s>\n<|user|>\nHello</s>\n<|assistant|>\nHi!</s>\n',
          '<|user|>\nRain in Paris?</s>\n<|assistant|>\n',
        ),
      },
      {
        about: 'an answer that goes on',
        messages: open,
        options: goOn,
        text: '<|user|>\nHello</s>\n<|assistant|>\nHi, I',
      },
    ],
  },
]
