import {
  type ChatMessage,
  type GenerateRequest,
  createEngine,
  PluginRegistry,
  SimulatedClock,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { drive, FakeBackend, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'

/** An engine, and what it says of the last request. */
function engineOf(slots = 4) {
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({ clock, slots, stepMs: () => 10, contextSize: 2048 })
  const random = { uint32: () => 7 }
  const engine = createEngine({ backend, policy: firstComeFirstServed, clock, random })
  const client = new LocalEngineClient(engine, new PluginRegistry(), random)
  let count = 0
  const ask = async (prompt: GenerateRequest['prompt'], more: Partial<GenerateRequest> = {}) => {
    const id = `request ${count++}`
    const request = { id, prompt, maxTokens: 5, sampling: { temperature: 0 }, ...more }
    for await (const event of client.submit(request)) void event
    return (await client.explain(id)).parting
  }
  const run = async (story: () => Promise<void>): Promise<void> => {
    await drive(clock, story())
    await engine.close()
  }
  return { ask, run, statistics: () => client.statistics(), programs: () => client.programs() }
}

const system = (date: string): ChatMessage => ({
  role: 'system',
  content: `You are an agent. ${'Be exact. '.repeat(20)}Now: ${date}. Never guess.`,
})
const task: ChatMessage = { role: 'user', content: `List the files. ${'And explain. '.repeat(30)}` }
const said: ChatMessage = { role: 'assistant', content: 'I call ls.' }
const result: ChatMessage = { role: 'tool', content: 'a.txt b.txt' }

t.test('it is told at which message a prompt parts from the call before', async (t) => {
  const { ask, run, statistics } = engineOf()
  await run(async () => {
    t.equal(await ask({ messages: [system('12:00:01'), task] }), undefined)
    const parting = await ask({ messages: [system('12:00:07'), task, said, result] })
    t.match(parting, { before: 'request 0', by: 'messages', message: 0, role: 'system' })
    t.equal(parting!.isInContent, true)
    t.match(parting!.text, /Now: 12:00:0$/)
    t.match(parting!.was, /^1\. Never/)
    t.match(parting!.is, /^7\. Never/)
    t.ok(parting!.tokens > 300 && parting!.tokens < parting!.beforeTokens - parting!.token + 1)
    t.ok(parting!.costMs > 0)
    const { messages, session } = (await statistics()).partings!
    t.same(messages, { prompts: 1, tokens: parting!.tokens })
    t.same(session, { prompts: 0, tokens: 0 })
    const again = [system('12:00:07'), task, said, result, said, result]
    t.equal(await ask({ messages: again }), undefined, 'it goes on with the call before')
    t.equal(
      await ask({ messages: [system('12:00:09'), { ...task, content: 'Another.' }, said, result] }),
      undefined,
      'another conversation',
    )
    const other = { messages: [system('12:00:09'), task, said, result, said, result, said, result] }
    t.equal(await ask(other, { tenant: 'other' }), undefined, 'another tenant')
  })
})

t.test('what parts is counted for its program', async (t) => {
  const { ask, run, programs } = engineOf()
  await run(async () => {
    await ask({ messages: [system('12:00:01'), task] }, { session: 'a' })
    t.match(await programs(), [{ id: 'a', partings: { prompts: 0, tokens: 0 } }])
    const next = { messages: [system('12:00:07'), task, said, result] }
    const { tokens } = (await ask(next, { session: 'a' }))!
    await ask({ messages: [system('12:00:09'), task] }, { session: 'b' })
    t.match(await programs(), [
      { id: 'b', partings: { prompts: 0, tokens: 0 } },
      { id: 'a', partings: { prompts: 1, tokens } },
    ])
  })
})

t.test('a conversation is known though its clock was moved into its last message', async (t) => {
  const { ask, run } = engineOf()
  const timed = (minute: number, date: string): ChatMessage => {
    return { role: 'system', content: `Current time: 12:0${minute}\n${system(date).content}` }
  }
  await run(async () => {
    await ask({ messages: [timed(1, 'Monday'), task] })
    const parting = await ask({ messages: [timed(2, 'Friday'), task, said, result] })
    t.match(parting, { before: 'request 0', by: 'messages', message: 0, isInContent: true })
  })
})

t.test('messages that a template seems to leave out are each looked for once', async (t) => {
  const { ask, run } = engineOf()
  const others = Array.from({ length: 50 }, (_, nth): ChatMessage => {
    return { role: 'user', content: `Message number ${nth}` }
  })
  // It stands in the first message, too: all before it could have been left out.
  const quoted: ChatMessage = { role: 'user', content: system('').content.slice(0, 20) }
  await run(async () => {
    await ask({ messages: [system('12:00:01'), task] })
    const looks = t.capture(String.prototype, 'includes', function (this: unknown, text, from) {
      return String(this).indexOf(text, from) !== -1
    })
    const parting = await ask({ messages: [system('12:00:07'), task, ...others, quoted] })
    t.match(parting, { before: 'request 0', by: 'messages' })
    t.ok(looks().length < 150, 'and not each behind each other')
  })
})

t.test('a session that changes what it said before', async (t) => {
  const { ask, run } = engineOf(1)
  const session = 'agent'
  await run(async () => {
    const long = { ...result, content: 'a.txt '.repeat(60) }
    await ask({ messages: [task, said, long, said, task] }, { session })
    const short = await ask({ messages: [task, said, result, said, task, task] }, { session })
    t.match(short, { by: 'session', message: 2, role: 'tool', isInContent: true })
    t.match(short!.is, /^ ?b\.txt/)
    t.equal(await ask({ text: 'Title?' }, { session }), undefined, 'another conversation of it')
    const before = await ask({ messages: [task, said, said, result, task, task] }, { session })
    t.match(before, { message: 2, role: 'assistant', isInContent: false }, 'the role is another')
  })
})

t.test('what another slot had costs nothing', async (t) => {
  const { ask, run, statistics } = engineOf()
  await run(async () => {
    const next = [system('2'), task, said, result]
    await ask({ messages: [system('1'), task] })
    await ask({ messages: next }, { tenant: 'other' })
    t.match(await ask({ messages: next }), { by: 'messages', message: 0, tokens: 0, costMs: 0 })
    t.equal((await statistics()).partings!.messages.prompts, 0)
  })
})
