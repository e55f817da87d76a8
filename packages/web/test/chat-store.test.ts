import t from 'tap'
import { type Chat, createChat } from '../src/page/chat/chat-store.js'
import { type Conversation, shownTurns } from '../src/page/chat/conversation.js'
import { readSettings } from '../src/page/chat/settings/settings.js'
import type { Server } from '../src/page/server.js'

/** A chat whose answers come when the test sends them, and whose conversations are kept in a map. */
function openChat(keeps = async (): Promise<void> => {}) {
  const kept = new Map<string, Conversation>()
  const answers: ReadableStreamDefaultController<string>[] = []
  const server = {
    call: async (_path: string, { signal }: { readonly signal: AbortSignal }) => {
      const body = new ReadableStream<string>({
        start(stream) {
          answers.push(stream)
          signal.addEventListener('abort', () => stream.error(new Error('aborted')))
        },
      })
      return new Response(body.pipeThrough(new TextEncoderStream()))
    },
  } as unknown as Server
  const store = createChat(
    {
      keep: async (conversation) => {
        await keeps()
        kept.set(conversation.id, conversation)
      },
      mark: async (known, marks) => void kept.set(known.id, { ...known, ...marks }),
      forget: async (id) => void kept.delete(id),
      readConversation: async (id) => kept.get(id),
      readHistory: async () => [...kept.values()],
    },
    { ask: (draw) => (queueMicrotask(draw), 1), take: () => {} },
  )
  const asking = { server, settings: [readSettings()], models: ['m'] }
  const chat = (): Chat => store.chat(asking)
  let wake = (): void => {}
  store.follow(() => wake())
  /** Waits for a change after which the condition holds. */
  const until = async (holds: (chat: Chat) => boolean): Promise<void> => {
    while (!holds(chat())) await new Promise<void>((resolve) => (wake = resolve))
  }
  const say = (text: string): void =>
    answers.at(-1)!.enqueue(`data: {"choices":[{"delta":{"content":"${text}"}}]}\n\n`)
  return { chat, kept, answers, until, say }
}

const textsOf = ({ conversation }: Chat): string[] =>
  shownTurns(conversation).map(({ content }) => content)

t.test('a question is asked once, answered as it comes, and kept', async (t) => {
  const { chat, kept, answers, until, say } = openChat()
  chat().send('Why?')
  t.equal(chat().isBusy, true)
  chat().send('And why not?')
  await until(() => answers.length === 1)
  say('Be')
  await until((chat) => textsOf(chat)[1] === 'Be')
  say('cause.')
  answers[0]!.close()
  await until(({ isBusy, others }) => !isBusy && others.length === 1)
  t.same(textsOf(chat()), ['Why?', 'Because.'], 'nothing else was asked meanwhile')
  t.match(
    [...kept.values()],
    [{ title: 'Why?', turns: [{ role: 'user' }, { content: 'Because.' }] }],
  )
  const [question] = shownTurns(chat().conversation)
  chat().edit(question!, 'Who?')
  await until(() => answers.length === 2)
  chat().stop()
  await until(({ isBusy }) => !isBusy)
  t.same(textsOf(chat()), ['Who?', ''], 'a branch of its own')
  t.equal(chat().conversation.turns.at(-1)?.problem, 'Stopped')
})

t.test('a conversation is deleted after its answer is stopped, and comes back', async (t) => {
  const { chat, kept, answers, until, say } = openChat()
  chat().send('Why?')
  await until(() => answers.length === 1)
  say('Be')
  await until((chat) => textsOf(chat)[1] === 'Be')
  await chat().remove(chat().conversation)
  t.equal(chat().isBusy, false)
  await until(({ others }) => others.length === 0)
  t.same([kept.size, textsOf(chat())], [0, []])
  chat().notice?.undo?.()
  await until(({ others }) => others.length === 1)
  t.same(textsOf(chat()), ['Why?', 'Be'])
  t.equal([...kept.values()][0]?.turns.at(-1)?.problem, 'Stopped')
  chat().notice?.redo?.()
  await until(({ others }) => others.length === 0)
  chat().dismiss()
  t.equal(chat().notice, undefined)
})

t.test('a browser without room says so, and the chat goes on', async (t) => {
  const full = Object.assign(new Error('full'), { name: 'QuotaExceededError' })
  const { chat, answers, until, say } = openChat(async () => await Promise.reject(full))
  chat().send('Why?')
  await until(({ notice }) => notice !== undefined && answers.length === 1)
  t.match(chat().notice, { text: /^This browser has no room left: the conversation ends/ })
  say('So.')
  answers[0]!.close()
  await until(({ isBusy }) => !isBusy)
  t.same(textsOf(chat()), ['Why?', 'So.'])
})
