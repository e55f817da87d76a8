import { type ChatMessage, type VolatileLine, volatileLines, withStableBeginning } from '@cllm/core'
import t from 'tap'

const system = (content: string): ChatMessage => ({ role: 'system', content })
const user = (content: string): ChatMessage => ({ role: 'user', content })
const stable = (messages: readonly ChatMessage[], kinds: readonly VolatileLine[] = volatileLines) =>
  withStableBeginning({ messages }, kinds).prompt.messages

t.test('clocks move behind the last message', (t) => {
  for (const clock of [
    'System time: 2026-11-24T14:35:01.123456+00:00',
    'Current time: 14:35',
    '- **Current date and time**: Tuesday, November 24, 2026 at 2:35 PM',
    'The current date is Tue Nov 24 2026 14:35:01 GMT+0000',
    'Current time is 14:35:01. Today’s date is 2026-11-24.',
    '<current_datetime>2026-11-24 14:35:01</current_datetime>',
    'Timestamp: 2026-11-24 14:35',
    'Now: 2:35 PM',
  ]) {
    const said = [system(`Be brief.\n${clock}\nNever guess.`), user('Hi'), user('there')]
    t.same(
      stable(said),
      [system('Be brief.\nNever guess.'), user('Hi'), user(`there\n\n${clock}`)],
      clock,
    )
    t.equal(stable(said, []), said, 'switched off')
    t.same(stable([system(clock), said[1]!]), [user(`Hi\n\n${clock}`)], 'nothing else is left')
  }
  t.end()
})

t.test('all else stays, as the same object', (t) => {
  for (const line of [
    "Today's date: 2026-11-24",
    'We open at 9:30.',
    'Time limit: 0:30',
    'Dates: write them as 24:12',
    'It is important to know the current time: ask for it, as at 9:30',
  ]) {
    const said = [system(`Be brief.\n${line}`), user('Hi')]
    t.equal(stable(said), said, line)
  }
  for (const said of [
    [user('Current time: 14:35'), user('Hi')],
    [system('Current time: 14:35')],
    [system('Current time: 14:35'), { role: 'assistant', content: 'It is' }],
    [user('Hi'), system('Current time: 14:35')],
    [
      { ...system('Current time: 14:35\nSee'), media: [{ type: 'image', data: '', at: 23 }] },
      user('Hi'),
    ],
  ] as ChatMessage[][]) {
    t.equal(stable(said), said)
  }
  const prompt = { text: 'Current time: 14:35' }
  t.equal(withStableBeginning(prompt, volatileLines).prompt, prompt)
  t.end()
})

t.test('the billing line of Claude Code is left out', (t) => {
  const header = 'x-anthropic-billing-header: cc_version=1; cch=4711;'
  t.same(stable([system(`${header}\n\nBe brief.`), user('Hi')]), [system('Be brief.'), user('Hi')])
  t.same(stable([system(header), user('Hi')]), [user('Hi')])
  const said = [system(header), user('Hi')]
  t.equal(stable(said, ['clock']), said)
  t.end()
})

t.test('hostile texts take no time', (t) => {
  const long = ' '.repeat(200_000)
  for (const line of [
    long,
    `current${long}date`,
    `time${long}x`,
    `- ${'current '.repeat(50_000)}`,
  ]) {
    const said = [system(line), user('Hi')]
    t.equal(stable(said), said)
  }
  t.end()
})
