import {
  question,
  turns,
  open,
  goOn,
  toolJson,
  withTools,
  called,
  lines,
  type TemplateFixture,
} from './conversations.js'

export const mistral: readonly TemplateFixture[] = [
  {
    name: 'Mistral',
    source: 'the tokenization guide of Mistral AI, version 3 with Tekken',
    compared: true,
    bos: '<s>',
    eos: '</s>',
    controls: [
      '[INST]',
      '[/INST]',
      '[AVAILABLE_TOOLS]',
      '[/AVAILABLE_TOOLS]',
      '[TOOL_CALLS]',
      '[TOOL_RESULTS]',
      '[/TOOL_RESULTS]',
    ],
    template: `{{- bos_token }}
{%- set last = namespace(question=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{%- set last.question = loop.index0 %}{%- endif %}{%- endfor %}
{%- for m in messages %}
  {%- if m.role == 'user' %}
    {%- if tools and loop.index0 == last.question %}{{- '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{%- endif %}
    {{- '[INST]' }}
    {%- if loop.last and messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- m.content + '[/INST]' }}
  {%- elif m.role == 'tool' or m.tool_calls %}
    {%- for id in ([m.tool_call_id] if m.role == 'tool' else m.tool_calls | map(attribute='id') | list) %}
      {%- if id | length != 9 %}{{- raise_exception('ids have nine characters') }}{%- endif %}
    {%- endfor %}
    {%- if m.role == 'tool' %}
      {{- '[TOOL_RESULTS]{"content": ' + m.content + ', "call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
      {{- '[TOOL_CALLS][' }}
      {%- for c in m.tool_calls %}
        {{- (c.function | tojson)[:-1] + ', "id": "' + c.id + '"}' }}{%- if not loop.last %}{{- ', ' }}{%- endif %}
      {%- endfor %}
      {{- ']' + eos_token }}
    {%- endif %}
  {%- elif m.role == 'assistant' %}{{- m.content + eos_token }}{%- endif %}
{%- endfor %}`,
    cases: [
      {
        about: 'a system message stands in the last turn',
        messages: turns,
        text: '<s>[INST]Hello[/INST]Hi!</s>[INST]Be brief.\n\nRain in Paris?[/INST]',
      },
      {
        about: 'tools',
        messages: [question],
        options: withTools,
        text: `<s>[AVAILABLE_TOOLS][${toolJson}][/AVAILABLE_TOOLS][INST]Rain in Paris?[/INST]`,
      },
      {
        about: 'a call and its result',
        messages: called,
        text: lines(
          '<s>[INST]Rain in Paris?[/INST][TOOL_CALLS]',
          '[{"name": "weather", "arguments": {"city": "Paris"}, "id": "abc123def"}]</s>',
          '[TOOL_RESULTS]{"content": "rain", "call_id": "abc123def"}[/TOOL_RESULTS]',
        ),
      },
      {
        about: 'an answer that goes on',
        messages: open,
        options: goOn,
        text: '<s>[INST]Hello[/INST]Hi, I',
      },
    ],
  },
]
