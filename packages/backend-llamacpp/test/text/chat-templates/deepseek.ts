import {
  system,
  user,
  assistant,
  question,
  open,
  goOn,
  lines,
  type TemplateFixture,
} from './conversations.js'

export const deepseek: readonly TemplateFixture[] = [
  {
    name: 'DeepSeek-R1',
    source: 'the model card of DeepSeek-R1',
    compared: false,
    bos: '<｜begin▁of▁sentence｜>',
    eos: '<｜end▁of▁sentence｜>',
    controls: ['<｜User｜>', '<｜Assistant｜>'],
    template: `{{- bos_token }}
{%- for m in messages %}
  {%- if m.role == 'system' %}{{- m.content }}
  {%- elif m.role == 'user' %}{{- '<｜User｜>' + m.content }}
  {%- elif m.role == 'assistant' %}{{- '<｜Assistant｜>' + m.content.split('</think>')[-1] + eos_token }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<｜Assistant｜><think>\\n' }}{%- endif %}`,
    cases: [
      {
        about: 'a system message and turns, without earlier thoughts',
        messages: [system, user, { ...assistant, content: '<think>\nWho?\n</think>Hi!' }, question],
        text: lines(
          '<｜begin▁of▁sentence｜>Be brief.<｜User｜>Hello<｜Assistant｜>Hi!<｜end▁of▁sentence｜>',
          '<｜User｜>Rain in Paris?<｜Assistant｜><think>\n',
        ),
      },
      {
        about: 'an answer that goes on',
        messages: open,
        options: goOn,
        text: '<｜begin▁of▁sentence｜><｜User｜>Hello<｜Assistant｜>Hi, I',
      },
    ],
  },
]
