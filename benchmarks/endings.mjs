// How many answers of a model end by themselves, with and without a repetition penalty.
// node benchmarks/endings.mjs [MODEL] [--tokens 512]
import { parseArgs } from 'node:util'
import { createServer } from '../packages/cli/dist/index.js'
import { koaTransport, openAiProtocol } from '../packages/http-koa/dist/index.js'

const { values, positionals } = parseArgs({
  options: { tokens: { type: 'string', default: '512' } },
  allowPositionals: true,
})
const model = positionals[0] ?? 'tinyllama-1.1b-chat'
const prompts = [
  'Say hi.',
  'Name three colours.',
  'Hello, who are you?',
  'What is the capital of France?',
  'Write one sentence about the sea.',
  'What is two plus two?',
  'Tell me a joke.',
  'How do I boil an egg?',
  'Name a fruit.',
  'What is the opposite of hot?',
  'Translate "good morning" into Spanish.',
  'Why is the sky blue?',
  'List the days of the week.',
  'What does a doctor do?',
  'Give me a title for a story about a cat.',
  'Is water wet?',
  'Who wrote Hamlet?',
  'What is a computer?',
  'Describe a tree.',
  'Thank you!',
  'How many legs does a spider have?',
  'Once upon a time',
]
const server = await createServer({
  model,
  transports: [koaTransport({ port: 0, protocols: [openAiProtocol()] })],
})
const [{ url }] = await server.listen()
for (const penalty of [1, 1.1]) {
  const ends = prompts.map(async (content) => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        messages: [{ role: 'user', content }],
        max_tokens: Number(values.tokens),
        temperature: 0,
        repetition_penalty: penalty,
      }),
    })
    const { choices, usage } = await response.json()
    return { reason: choices[0].finish_reason, tokens: usage.completion_tokens }
  })
  const answers = await Promise.all(ends)
  const ended = answers.filter(({ reason }) => reason === 'stop')
  const tokens = answers.map((answer) => answer.tokens).sort((a, b) => a - b)
  console.log(
    `penalty ${penalty}: ${ended.length} of ${answers.length} answers end; median ${tokens[tokens.length >> 1]} tokens`,
  )
}
await server.close()
