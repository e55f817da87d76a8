import t from 'tap'
import { promptWithTools } from '../../src/chat/tool-prompt.js'

t.test('ids of calls are such as the templates of Mistral take', async (t) => {
  const call = { type: 'function', function: { name: 'add', arguments: {} } } as const
  const messages = [
    {
      role: 'assistant',
      content: '',
      tool_calls: [
        { ...call, id: 'call_5' },
        { ...call, id: 'abc123def' },
      ],
    },
    { role: 'tool', content: '3', tool_call_id: 'call_5' },
    { role: 'tool', content: '4', tool_call_id: 'abc123def' },
  ]
  const shown = promptWithTools(messages, [], { showsTools: true, shortIds: true }).messages
  const [first, second] = shown[0]?.tool_calls ?? []
  t.match(first?.id, /^[a-z0-9]{9}$/)
  t.equal(second?.id, 'abc123def', 'one that fits is left alone')
  t.same(
    shown.map(({ tool_call_id: id }) => id),
    [undefined, first?.id, 'abc123def'],
  )
  t.same(promptWithTools(messages, [], { showsTools: true, shortIds: false }).messages, messages)
})
