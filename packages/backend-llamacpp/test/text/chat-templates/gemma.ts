import { turns, open, goOn, lines, type TemplateFixture } from './conversations.js'

export const gemma: readonly TemplateFixture[] = [
  {
    name: 'Gemma 3',
    source: 'the formatting page of Gemma by Google',
    compared: true,
    bos: '<bos>',
    eos: '<end_of_turn>',
    controls: ['<start_of_turn>', '<eos>'],
    template: `{{- bos_token }}
{%- set first = messages[0].content + '\\n\\n' if messages[0].role == 'system' else '' %}
{%- for m in messages if m.role != 'system' %}
  {{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}
  {%- if loop.first %}{{- first }}{%- endif %}
  {{- (m.content | trim) + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}`,
    cases: [
      {
        about: 'a system message stands in the first turn',
        messages: turns,
        text: lines(
          '<bos><start_of_turn>user\nBe brief.\n\nHello<end_of_turn>\n',
          '<start_of_turn>model\nHi!<end_of_turn>\n',
          '<start_of_turn>user\nRain in Paris?<end_of_turn>\n<start_of_turn>model\n',
        ),
      },
      {
        about: 'an answer that goes on',
        messages: open,
        options: goOn,
        text: '<bos><start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\nHi, I',
      },
    ],
  },
  {
    name: 'Gemma 2',
    source: 'the formatting page of Gemma by Google: it has no role for a system message',
    compared: false,
    bos: '<bos>',
    eos: '<end_of_turn>',
    controls: ['<start_of_turn>', '<eos>'],
    template: `{{- bos_token }}
{%- for m in messages %}
  {%- if m.role == 'system' %}{{- raise_exception('System role not supported') }}{%- endif %}
  {{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + (m.content | trim) + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}`,
    cases: [
      {
        about: 'a system message that is refused goes in front of the first question',
        messages: turns,
        text: lines(
          '<bos><start_of_turn>user\nBe brief.\nHello<end_of_turn>\n',
          '<start_of_turn>model\nHi!<end_of_turn>\n',
          '<start_of_turn>user\nRain in Paris?<end_of_turn>\n<start_of_turn>model\n',
        ),
      },
    ],
  },
]
