// How many answers of a model end by themselves, and how many are right, with each way to penalize repetition.
// node benchmarks/endings.mjs [MODEL] [--tokens 512] [--ways '[{}, {"repetition_penalty": 1.1}]'] [--show]
import { parseArgs } from 'node:util'
import { serve } from '../packages/cli/dist/index.js'
import { median } from './lib/statistics.mjs'

const { values, positionals } = parseArgs({
  options: {
    tokens: { type: 'string', default: '512' },
    ways: { type: 'string', default: '[{}, {"repetition_penalty": 1.1}]' },
    show: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
const model = positionals[0] ?? 'tinyllama-1.1b-chat'

/** What people ask first, and what a right answer has where one can tell. */
const questions = [
  ['Say hi.'],
  ['Hello, who are you?'],
  ['Thank you!'],
  ['Once upon a time'],
  ['Tell me a joke.'],
  ['Write one sentence about the sea.'],
  ['How do I boil an egg?'],
  ['Why is the sky blue?'],
  ['What does a doctor do?'],
  ['Give me a title for a story about a cat.'],
  ['What is a computer?'],
  ['Describe a tree.'],
  ['Write a short poem about rain.'],
  ['What can you do?'],
  ['How are you today?'],
  ['Explain photosynthesis in one sentence.'],
  ['Write a haiku about winter.'],
  ['Give me three tips for sleeping better.'],
  ['What should I cook tonight?'],
  ['Summarize the story of Cinderella.'],
  ['Write an email that says I am sick today.'],
  ['What is love?'],
  ['Tell me about dogs.'],
  ['How do I learn to play the guitar?'],
  ['Test'],
  ['Name three colours.', /red|blue|green|yellow/i],
  ['What is the capital of France?', /paris/i],
  ['What is two plus two?', /\b(4|four)\b/i],
  ['Name a fruit.', /apple|banana|orange|pear|grape|mango|berr|kiwi|melon|peach/i],
  ['What is the opposite of hot?', /\bcold/i],
  ['Translate "good morning" into Spanish.', /buen(os|as) d[ií]as/i],
  ['List the days of the week.', /monday[^]*sunday|sunday[^]*saturday/i],
  ['Is water wet?', /\byes|is wet/i],
  ['Who wrote Hamlet?', /shakespeare/i],
  ['How many legs does a spider have?', /\b(8|eight)\b/i],
  ['What colour is the sky?', /blue/i],
  ['What is the capital of Japan?', /tokyo/i],
  ['What is the capital of Italy?', /rome/i],
  ['How many days are in a week?', /\b(7|seven)\b/i],
  ['What is the largest planet?', /jupiter/i],
  ['Who painted the Mona Lisa?', /leonardo|da vinci/i],
  ['What is H2O?', /water/i],
  ['How many months are in a year?', /\b(12|twelve)\b/i],
  ['What animal says meow?', /\bcat/i],
  ['What is ten minus three?', /\b(7|seven)\b/i],
  ['Which ocean is the largest?', /pacific/i],
  ['Who was the first president of the United States?', /washington/i],
  ['What language is spoken in Brazil?', /portuguese/i],
  ['How many wheels does a bicycle have?', /\b(2|two)\b/i],
  ['At what temperature does water freeze in Celsius?', /\b(0|zero)\b/i],
]

const server = await serve({ model, port: 0 })
for (const way of JSON.parse(values.ways)) {
  const all = []
  const left = [...questions]
  const ask = async ([content, right]) => {
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        messages: [{ role: 'user', content }],
        max_tokens: Number(values.tokens),
        temperature: 0,
        repetition_penalty: 1,
        ...way,
      }),
    })
    const { choices, usage } = await response.json()
    const [{ message, finish_reason: reason }] = choices
    const isRight = right?.test(message.content)
    if (values.show) console.log({ content, reason, isRight, answer: message.content.slice(-300) })
    all.push({ ends: reason === 'stop', isRight, tokens: usage.completion_tokens })
  }
  const askNext = async () => {
    while (left.length > 0) await ask(left.shift())
  }
  await Promise.all(Array.from({ length: 8 }, askNext))
  const count = (which) => all.filter(which).length
  const ended = count(({ ends }) => ends)
  const right = count(({ isRight }) => isRight)
  const asked = count(({ isRight }) => isRight !== undefined)
  const tokens = median(all.map((answer) => answer.tokens))
  const sum = `${ended} of ${all.length} end, ${right} of ${asked} are right, median ${tokens} tokens`
  console.log(`${JSON.stringify(way)}: ${sum}`)
}
await server.close()
