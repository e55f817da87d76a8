import { turns, open, goOn, lines, type TemplateFixture } from './conversations.js'

export const phi: readonly TemplateFixture[] = [
  {
    name: 'Phi-3',
    source: 'the model card of Phi-3 Mini by Microsoft',
    compared: false,
    bos: '<s>',
    eos: '<|end|>',
    controls: ['<|system|>', '<|user|>', '<|assistant|>', '<|endoftext|>'],
    template: `{%- for m in messages %}{{- '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}`,
    cases: [
      {
        about: 'a system message and turns',
        messages: turns,
        text: lines(
          '<|system|>\nBe brief.<|end|>\n<|user|>\nHello<|end|>\n<|assistant|>\nHi!<|end|>\n',
          '<|user|>\nRain in Paris?<|end|>\n<|assistant|>\n',
        ),
      },
      {
        about: 'an answer that goes on',
        messages: open,
        options: goOn,
        text: '<|user|>\nHello<|end|>\n<|assistant|>\nHi, I',
      },
    ],
  },
  {
    name: 'Phi-3, first edition',
    source: 'the model card of Phi-3 Mini in April 2024: a system message is passed over',
    compared: false,
    bos: '<s>',
    eos: '<|end|>',
    controls: ['<|user|>', '<|assistant|>', '<|endoftext|>'],
    template: `{{- bos_token }}{%- for m in messages %}{%- if m.role == 'user' %}{{- '<|user|>\\n' + m.content + '<|end|>\\n<|assistant|>\\n' }}{%- elif m.role == 'assistant' %}{{- m.content + '<|end|>\\n' }}{%- endif %}{%- endfor %}`,
    cases: [
      {
        about: 'a system message that would be lost goes in front of the first question',
        messages: turns,
        text: lines(
          '<s><|user|>\nBe brief.\nHello<|end|>\n<|assistant|>\nHi!<|end|>\n',
          '<|user|>\nRain in Paris?<|end|>\n<|assistant|>\n',
        ),
      },
    ],
  },
]
