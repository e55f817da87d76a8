import type { ActivityFrame, ActivitySpan, EngineActivity, Recording } from '@cllm/core'
import { recordedPrompts, type SimulatedRequest } from '@cllm/simulation'
import { h } from 'preact'
import { render } from 'preact-render-to-string'
import t from 'tap'
import { added, ask } from '../src/page/chat/ask.js'
import { chatBody } from '../src/page/chat/chat-body.js'
import { readSettings } from '../src/page/chat/settings/settings.js'
import {
  branchesOf,
  emptyConversation,
  mediaBytes,
  shownTurns,
  type Turn,
  withBranch,
  withTurn,
} from '../src/page/chat/conversation.js'
import {
  parseConversations,
  toJson,
  toMarkdown,
  united,
} from '../src/page/chat/saved-conversations.js'
import { madeRequests, toLoadFile, usualLoad } from '../src/page/lab/lab-job.js'
import { openJob, runCandidate, summarize } from '../src/page/lab/run-lab.js'
import { highlight } from '../src/page/markdown/highlight.js'
import { Markdown, piecesOf } from '../src/page/markdown/markdown.js'
import { besideChosen, placeSpans, spanAt } from '../src/page/scheduler/draw-gantt.js'
import { followLive } from '../src/page/scheduler/follow-live.js'
import { counted, parsedJson } from '../src/page/parts/format.js'
import { withPast } from '../src/page/scheduler/past.js'
import { readLines, type Server, ServerError } from '../src/page/server.js'
import { cachedText } from '../src/page/scheduler/words.js'
import {
  cachedFrom,
  figuresOf,
  itlPercentiles,
  type LiveState,
  percentilesOf,
  tenantsOf,
  tokensBySecond,
  withActivity,
} from '../src/page/scheduler/live-state.js'

const html = (text: string): string => render(h(Markdown, { text }))

t.test('Markdown: text, code, tables, lists, formulas', (t) => {
  const shown = html('# A\n\nb **c** `d` ~~e~~\n\n- f\n- [x] g\n\n3. h\n\n> i\n\n---\n')
  for (const part of ['<h3>A</h3>', '<strong>c</strong>', '<code>d</code>', '<del>e</del>']) {
    t.ok(shown.includes(part), part)
  }
  t.match(shown, /<div dir="auto"><ol start="3">.*<blockquote><p>.*<hr/s)
  t.match(shown, /<li class="task"><input type="checkbox" checked disabled[^>]*><span>g</)
  t.match(html('- [ ] a\n\n- b\n'), /<li class="task"><p><input type="checkbox" disabled[^>]*>a</)
  t.match(html('```js\nlet a = "<b>"\n```'), /<span>js<\/span>.*let a = &quot;&lt;b>&quot;/s)
  t.match(html('|a|b|\n|-|-:|\n|1|2|'), /<th[^>]*>a<\/th>.*<td class="align-right">2<\/td>/s)
  const formula = html('so $a_1 b_1$ and \\(x*y*z\\), for $5 or $6\n\n$$\nc_2 * d_2\n$$\n')
  t.match(formula, /<code class="math">a_1 b_1<\/code>.*<code class="math">x\*y\*z<\/code>/)
  t.match(formula, /for \$5 or \$6.*<pre class="math"[^>]*>c_2 \* d_2<\/pre>/s)
  t.match(html('a &amp; b &lt;i&gt;'), /a &amp; b &lt;i>/, 'entities are what they stand for')
  t.match(html('&constructor;'), '&amp;constructor;', 'and names of all objects are none')
  t.match(html('an unfinished ```js\nlet'), /let/, 'while it comes')
  t.end()
})

t.test('code in colours: elements, never HTML', (t) => {
  const shown = (text: string, language: string): string =>
    render(h('code', null, highlight(text, language)))
  t.match(
    shown('const a = "<b>" // c', 'js'),
    /<span class="hljs-keyword">const<\/span>.*<span class="hljs-string">&quot;&lt;b>&quot;<.*hljs-comment/,
  )
  t.match(shown('def f(): pass', 'Python'), /hljs-keyword/)
  t.equal(highlight('a', 'no such language'), undefined)
  t.equal(highlight('1'.repeat(30_000), 'js'), undefined, 'a line too long to be coloured')
  t.end()
})

t.test('code that comes is coloured and laid out in pieces that stay as they are', (t) => {
  const lines = Array.from(
    { length: 2000 },
    (_, at) => `  const a${at} = f('${at}')\n${at % 40 ? '' : '}\n\n'}`,
  )
  const code = `${lines.join('')}${'1'.repeat(9000)}\nlast()`
  const whole = piecesOf(code)
  t.equal(whole.join(''), code)
  t.ok(whole.length > 10 && whole.slice(0, -1).every((each) => each.endsWith('\n')))
  t.same(
    whole.filter((each) => each.length > 4000).map((each) => each.length),
    [9001],
    'but for a line that is longer',
  )
  for (let length = 0; length < code.length; length += 997) {
    const settled = piecesOf(code.slice(0, length)).slice(0, -1)
    t.ok(whole.join().startsWith(settled.join()), `after ${length} letters`)
  }
  const coming = (isComing: boolean): number => {
    const text = `\`\`\`js\n${lines.slice(0, 400).join('')}`
    return [...render(h(Markdown, { text, isComing })).matchAll(/<span> {2}const/g)].length
  }
  t.same([coming(true), coming(false)], [3, 1], 'one piece in the end, so that no text is cut')
  t.end()
})

t.test('Markdown: nothing of a hostile answer runs or is loaded', (t) => {
  const hostile = [
    '<script>alert(1)</script>',
    'a <img src=x onerror=alert(1)> b',
    '<svg onload=alert(1)>',
    '<iframe srcdoc="<script>alert(1)</script>">',
    '<a href="javascript:alert(1)">x</a>',
    '[x](javascript:alert(1))',
    '[x](JaVaScRiPt:alert(1))',
    '[x](java\tscript:alert(1))',
    '[x](&#106;avascript:alert(1))',
    '[x](data:text/html,<script>alert(1)</script>)',
    '[x](vbscript:msgbox)',
    '[x](file:///etc/passwd)',
    '![x](https://example.com/track.png)',
    '![x](data:image/svg+xml,<svg/onload=alert(1)>)',
    '<https://example.com/"onmouseover="alert(1)>',
    '[x]: javascript:alert(1)\n\n[x]',
    '```html" onload="alert(1)\nx\n```',
    '| <script> |\n|---|\n| <img src=x> |',
    '- <object data=x>\n\n1. <embed src=x>',
    '# <style>*{display:none}</style>',
    '$<img src=x>$\n\n$$\n<img src=x>\n$$\n',
  ]
  for (const text of hostile) {
    const shown = html(text)
    const tags = [...shown.matchAll(/<([a-z0-9]+)((?:"[^"]*"|[^>"])*)>/gi)]
    for (const [tag, name = '', attributes = ''] of tags) {
      t.notMatch(name, /^(script|img|svg|iframe|object|embed|style|link|form|video|audio)$/i, tag)
      t.notMatch(attributes.replaceAll(/"[^"]*"/g, ''), /\son\w+|\ssrc|\sstyle/i, tag)
      const [, href] = /href="([^"]*)"/.exec(attributes) ?? []
      if (href !== undefined) t.match(href, /^(https?|mailto):/, tag)
    }
  }
  t.match(html('![x](https://example.com/a.png)'), /href="https:\/\/example.com\/a.png".*image: x/)
  const link = html('[x](https://example.com)')
  t.match(link, /target="_blank" rel="noopener noreferrer nofollow"/)
  t.end()
})

t.test('a conversation: branches, and what is shown of them', (t) => {
  const turn = (id: string, parent: string | null, role: Turn['role'] = 'user'): Turn => {
    return { id, parent, role, content: `text of ${id}` }
  }
  let chat = emptyConversation('chat', 0)
  chat = withTurn(chat, turn('a', null), 1)
  chat = withTurn(chat, turn('b', 'a', 'assistant'), 2)
  chat = withTurn(chat, turn('c', 'b'), 3)
  chat = withTurn(chat, turn('d', 'a', 'assistant'), 4)
  const shown = (): string =>
    shownTurns(chat)
      .map(({ id }) => id)
      .join('')
  t.equal(shown(), 'ad', 'another answer takes the place of the first')
  t.same(
    branchesOf(chat, chat.turns[3]!).map(({ id }) => id),
    ['b', 'd'],
  )
  chat = withBranch(chat, 'b')
  t.equal(shown(), 'abc', 'a branch is shown to its end')
  t.equal(chat.title, 'text of a')
  t.match(toMarkdown(chat), /^# text of a\n\n## You\n\ntext of a\n\n## Answer\n\ntext of b/)
  const cut = { ...chat, turns: chat.turns.map((each) => ({ ...each, finish: 'length' })) }
  t.match(toMarkdown(cut), /text of b\n\n\*Stopped at the limit/)
  t.end()
})

t.test('a conversation that two tabs go on with has the turns of both', (t) => {
  const turn = (id: string, content: string): Turn => {
    return { id, parent: null, role: 'assistant', content }
  }
  const chat = emptyConversation('chat', 0)
  const kept = {
    ...chat,
    title: 'named in the other tab',
    pinned: true,
    leaf: 'b',
    turns: [turn('a', 'whole'), turn('b', 'other'), turn('c', '')],
  }
  const shown = { ...chat, leaf: 'd', turns: [turn('a', ''), turn('c', 'mine'), turn('d', 'new')] }
  const both = united(kept, shown, 'c')
  t.equal(both.leaf, 'd')
  t.match(both, { title: 'named in the other tab', pinned: true })
  t.same(
    both.turns.map(({ id, content }) => [id, content]),
    [
      ['a', 'whole'], // which was still coming when this tab read it
      ['b', 'other'],
      ['c', 'mine'],
      ['d', 'new'],
    ],
  )
  t.equal(united(undefined, shown, ''), shown)
  t.throws(() => united(undefined, shown, 'c'), /deleted while it was answered/)
  t.end()
})

t.test('a question that got no answer does not stay in what models read', async (t) => {
  const said = async (...roles: readonly (readonly [Turn['role'], string])[]) => {
    const turns = roles.map(([role, content], index): Turn => {
      return { id: String(index), parent: null, role, content }
    })
    const { messages } = (await chatBody(turns, readSettings())) as {
      readonly messages: readonly { readonly content: string }[]
    }
    return messages.map(({ content }) => content)
  }
  t.same(await said(['user', 'a'], ['assistant', ''], ['user', 'b']), ['b'])
  t.same(
    await said(['user', 'a'], ['assistant', 'Hi'], ['user', 'b'], ['assistant', ''], ['user', 'c']),
    ['a', 'Hi', 'c'],
  )
})

t.test('images and sounds go before the text, and files keep them', async (t) => {
  const [image, sound] = [
    new Blob(['pixels'], { type: 'image/png' }),
    new Blob(['x'.repeat(9000)], { type: 'audio/mpeg' }),
  ]
  const files = [
    { name: 'a.txt', text: 'red' },
    { name: 'b.png', type: 'image' as const, data: image },
    { name: 'c.mp3', type: 'audio' as const, data: sound },
  ]
  const turn: Turn = { id: 'a', parent: null, role: 'user', content: 'What?', files }
  const { messages } = (await chatBody([turn], readSettings())) as { readonly messages: unknown }
  t.same(messages, [
    {
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: `data:image/png;base64,${btoa('pixels')}` } },
        { type: 'input_audio', input_audio: { data: btoa('x'.repeat(9000)), format: 'mp3' } },
        { type: 'text', text: 'a.txt:\n```\nred\n```\n\nWhat?' },
      ],
    },
  ])
  const ticks = [{ name: 'long.md', text: '`a` '.repeat(150_000) }]
  const { messages: long } = (await chatBody([{ ...turn, files: ticks }], readSettings())) as {
    readonly messages: readonly { readonly content: string }[]
  }
  t.ok(long[0]?.content.startsWith('long.md:\n```\n`a`'), 'however many backticks a file has')
  const chat = { id: 'x', title: 'Pictures', changedAt: 0, turns: [turn], leaf: 'a' }
  const [read] = parseConversations(await toJson(chat))
  t.same(await chatBody(read!.turns, readSettings()), await chatBody([turn], readSettings()))
  t.equal(mediaBytes(read!.turns[0]!.files!), 9006)
  t.match(toMarkdown(chat), /\*b\.png\*/)
})

t.test('calls of tools and their results go back to the model', async (t) => {
  const call = { id: 'call_1', name: 'look', arguments: '{"at":"sky"}' }
  const turns: Turn[] = [
    { id: 'a', parent: null, role: 'user', content: 'What is up?' },
    { id: 'b', parent: 'a', role: 'assistant', content: '', calls: [call] },
    {
      id: 'c',
      parent: 'b',
      role: 'tool',
      content: '',
      results: [{ call: 'call_1', name: 'look', content: 'blue' }],
    },
    { id: 'd', parent: 'c', role: 'assistant', content: 'It is blue.', calls: [] },
  ]
  const settings = { ...readSettings(), system: 'Be brief.', tools: '[{"type":"function"}]' }
  const body = await chatBody(turns, { ...settings, toolChoice: 'required', temperature: '0' })
  t.match(body, { tools: [{ type: 'function' }], tool_choice: 'required', temperature: 0 })
  t.same((body as { messages: object }).messages, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'What is up?' },
    {
      role: 'assistant',
      content: '',
      tool_calls: [
        { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":"sky"}' } },
      ],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'blue' },
    { role: 'assistant', content: 'It is blue.' },
  ])
  const open = (await chatBody(turns.slice(0, 2), settings)) as { messages: object[] }
  t.equal(open.messages.length, 2, 'a call without a result is left out')
  t.equal('tool_choice' in open, false)
  t.equal('tools' in (await chatBody(turns, readSettings())), false)
  await t.rejects(chatBody(turns, { ...settings, tools: '[' }), SyntaxError)
  const chat = { id: 'x', title: 'Up', changedAt: 0, turns, leaf: 'd' }
  t.match(
    toMarkdown(chat),
    /Calls look:\n\n````\n\{"at":"sky"\}\n````[^]*## Results\n\nlook:\n\n````\nblue/,
  )
})

t.test('an answer is put together from its chunks', (t) => {
  const chunk = (delta: object) => ({ choices: [{ delta }] })
  const call = (index: number, more: object) => chunk({ tool_calls: [{ index, ...more }] })
  const chunks = [
    chunk({ role: 'assistant', content: '' }),
    chunk({ reasoning_content: 'hm' }),
    chunk({ content: 'a' }),
    chunk({ content: 'b' }),
    call(0, { id: 'one', function: { name: 'look', arguments: '{"a"' } }),
    call(0, { function: { arguments: ':1}' } }),
    call(1, { id: 'two', function: { name: 'go', arguments: '{}' } }),
    {
      choices: [],
      usage: {
        prompt_tokens: 9,
        completion_tokens: 4,
        prompt_tokens_details: { cached_tokens: 3 },
      },
      timings: { predicted_per_second: 7 },
    },
  ]
  const none = { content: '', reasoning: '', calls: [], figures: { predictedMs: 5 } }
  const cut = { choices: [{ delta: {}, finish_reason: 'length' }] }
  t.match(added(added(none, cut), chunk({})), { finish: 'length' })
  t.same(chunks.reduce<typeof none>(added as never, none), {
    content: 'ab',
    reasoning: 'hm',
    calls: [
      { id: 'one', name: 'look', arguments: '{"a":1}' },
      { id: 'two', name: 'go', arguments: '{}' },
    ],
    figures: { predictedMs: 5, promptTokens: 9, tokens: 4, cachedTokens: 3, tokensPerSecond: 7 },
  })
  t.throws(() => added(none, { error: { message: 'cut' } }), /cut/)
  t.end()
})

t.test('lines come as they are, and a connection that breaks off says so', async (t) => {
  const lines: string[] = []
  const start = (to: ReadableStreamDefaultController<Uint8Array>): void => {
    for (const part of ['{"a":1}\n{"b', '":2}\n\n']) to.enqueue(new TextEncoder().encode(part))
  }
  const pull = (to: ReadableStreamDefaultController): void => to.error(new TypeError('network'))
  const breaksOff = async (): Promise<void> => {
    const body = new ReadableStream({ start, pull }, { highWaterMark: 0 })
    for await (const line of readLines(new Response(body))) lines.push(line)
  }
  await t.rejects(breaksOff(), { message: 'The connection to the server broke off: try again.' })
  t.same(lines, ['{"a":1}', '{"b":2}'])
})

t.test('chunks that come at one time tell no speed', async (t) => {
  t.intercept(performance, 'now', { value: () => 5 }) // browsers count whole milliseconds
  const chunk = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
  const server = { call: async () => new Response(chunk.repeat(2)) }
  let figures: object | undefined
  await ask(server as unknown as Server, {}, new AbortController().signal, (answer) => {
    figures = answer.figures
  })
  t.same(figures, { firstTokenMs: 0 })
})

t.test('what an answer of before leaves behind when it is gone on with', async (t) => {
  const server = { call: async () => new Response('data: [DONE]\n\n') }
  const goOn = async (content: string) => {
    const before = { content, reasoning: 'hm', problem: 'Stopped' }
    let turn: Partial<Turn> = before
    const tell = (answer: object) => (turn = { ...turn, ...answer })
    await ask(server as unknown as Server, {}, new AbortController().signal, tell, before)
    return turn
  }
  t.match(await goOn('a'), { content: 'a', reasoning: 'hm', problem: undefined })
  t.match(await goOn(''), { reasoning: '' }, 'without a text it is begun again')
})

const steps = {
  count: 1,
  ms: 10,
  prefillTokens: 0,
  decodeTokens: 2,
  prefillSequences: 0,
  decodeSequences: 2,
}
const frame = (number: number, more: Partial<ActivityFrame> = {}): ActivityFrame => {
  const untilMs = number * 100
  const nothing = { spans: [], firstTokensMs: [], itl: [], tenants: {}, ended: [] }
  return { number, atMs: untilMs - 100, untilMs, steps, ...nothing, ...more }
}
const activity = (now: number, frames: readonly ActivityFrame[], lost = 0): EngineActivity => {
  const cursor = frames.at(-1)?.number ?? 0
  const queue: EngineActivity['queue'] = []
  const slots: EngineActivity['slots'] = []
  return { now, cursor, lost, policy: 'p', slots, slotTokens: 9, waiting: 0, queue, frames }
}

t.test('the live view keeps a bounded while, with spans that go on in one', (t) => {
  const span = (atMs: number, untilMs: number, kind: ActivitySpan['kind'] = 'decode') => {
    return { id: 'r', slot: 1, kind, atMs, untilMs, tokens: 1 }
  }
  const numbers = Array.from({ length: 1000 }, (_, index) => index + 1)
  let state: LiveState | undefined
  for (const number of numbers) {
    const untilMs = number * 100
    const kind = number === 990 ? 'pause' : 'decode'
    const spans = [span(untilMs - 100, untilMs, kind)]
    state = withActivity(state, activity(untilMs, [frame(number, { spans })], 1))
  }
  t.equal(state?.frames.length, 600, 'a minute')
  t.same(
    state?.spans.map(({ kind, untilMs, tokens }) => [kind, untilMs, tokens]),
    [
      ['decode', 98_900, 989],
      ['pause', 99_000, 1],
      ['decode', 100_000, 10],
    ],
  )
  t.equal(state?.lost, 600, 'of that minute')
  t.same(Object.keys(state?.frames[0] ?? {}).includes('spans'), false)
  const quiet = withActivity(state, activity(200_000, []))
  t.same([quiet.frames, quiet.spans, quiet.lost], [[], [], 0], 'what is older goes')
  const again = withActivity(state, activity(100_000, [frame(1000), frame(1001)]))
  t.equal(again.frames.at(-2)?.number, 1000)
  t.equal(again.frames.at(-3)?.number, 999, 'a frame that was told twice counts once')
  const restarted = withActivity(again, activity(100_001, [frame(1, { untilMs: 100_001 })]))
  t.equal(restarted.frames.at(-1)?.number, 1, 'an engine that starts again counts from 1')
  t.end()
})

t.test('the live view begins with what the flight recorder knows', (t) => {
  const slot = (slot: number, request?: string) => {
    return { slot, request, state: request === undefined ? 'idle' : 'decoding', tokens: 0 } as const
  }
  const now = { ...activity(100_000, []), slots: [slot(0), slot(1, 'runs')] }
  const state = withActivity(undefined, now)
  const arrival = { promptTokens: 9, blocks: [], tokens: 5 }
  const recording = {
    durationMs: 40_000,
    arrivals: [
      { ...arrival, id: 'old', atMs: 1000, firstTokenMs: 500, endMs: 2000 },
      { ...arrival, id: 'done', atMs: 30_000, firstTokenMs: 1000, endMs: 4000 },
      { ...arrival, id: 'runs', atMs: 31_000, firstTokenMs: 2000 },
      { ...arrival, id: 'refused', atMs: 31_000 },
    ],
    steps: [
      { atMs: 31_000, ms: 10, decodeMs: 8, sampleMs: 1, decode: 3, context: 9, chunks: [[40, 0]] },
    ],
  } as unknown as Recording
  const { spans, frames } = withPast(state, recording)
  t.same(
    spans.map(({ id, slot, kind, atMs, untilMs }) => [id, slot, kind, atMs, untilMs]),
    [
      ['done', 0, 'prefill', 90_000, 91_000],
      ['done', 0, 'decode', 91_000, 94_000],
      ['runs', 1, 'prefill', 91_000, 93_000],
      ['runs', 1, 'decode', 93_000, 100_000],
    ],
  )
  const { answers, prompts } = tokensBySecond(frames, 100_000)
  t.same([answers.at(-9), prompts.at(-9)], [3, 40])
  t.same(percentilesOf(frames.flatMap(({ firstTokensMs }) => firstTokensMs))?.p50, 1000)
  let looks = 0
  const steps = Array.from({ length: 40 }, (_, second) => ({
    ...recording.steps[0]!,
    get atMs() {
      looks++
      return second * 1000
    },
  }))
  t.equal(withPast(state, { ...recording, steps }).frames.length, 40)
  t.equal(looks, 40, 'each step is looked at once, as there may be very many')
  t.end()
})

t.test(
  'the live view asks again ever more slowly, and not at all where it is refused',
  async (t) => {
    const ask = async (status: number): Promise<{ calls: number; pauses: number[] }> => {
      const leaving = new AbortController()
      const pauses: number[] = []
      let calls = 0
      await followLive({
        server: {
          call: async () => {
            calls++
            throw await Promise.resolve(new ServerError('no', status, ''))
          },
        },
        model: '',
        signal: leaving.signal,
        tell: ({ problem }) => t.equal(problem, 'no'),
        pause: async (ms) => {
          pauses.push(ms)
          if (pauses.length === 6) leaving.abort()
          await Promise.resolve()
        },
      })
      return { calls, pauses }
    }
    t.same(await ask(403), { calls: 1, pauses: [] })
    t.same((await ask(503)).pauses, [2000, 4000, 8000, 16_000, 30_000, 30_000])
  },
)

t.test('an option may be null, as JSON', (t) => {
  t.equal(parsedJson('null', 'null'), null)
  t.equal(parsedJson('auto', 'auto'), 'auto')
  t.end()
})

t.test('figures of the live view', (t) => {
  const told = [0, 1, 1200].map((count) => counted(count, 'token'))
  t.same(told, ['0 tokens', '1 token', '1,200 tokens'])
  t.equal(percentilesOf([]), undefined)
  const values = Array.from({ length: 100 }, (_, index) => 100 - index)
  t.same(percentilesOf(values), { p50: 51, p90: 91, p99: 100 })
  const bucket = (ms: number): number => Math.ceil(Math.log(ms) / Math.log(1.15))
  const pauses = itlPercentiles([{ itl: [[bucket(20), 60]] }, { itl: [[bucket(400), 40]] }])
  t.ok(pauses!.p50 >= 20 && pauses!.p50 < 23, String(pauses!.p50))
  t.ok(pauses!.p90 >= 400 && pauses!.p90 < 460, String(pauses!.p90))
  const end = { id: 'r', state: 'done', queueMs: 0, generatedTokens: 5 } as const
  const frames = [
    frame(10, { tenants: { a: 30, b: 10 } }),
    frame(20, {
      ended: [
        { ...end, tenant: 'a', promptTokens: 40, cachedTokens: 10 },
        {
          ...end,
          tenant: 'b',
          promptTokens: 60,
          cachedTokens: 15,
          cache: { from: 'ram' } as const,
        },
      ],
    }),
  ]
  const figures = figuresOf(frames, 2900)
  t.match(figures, { requests: 2, cachedShare: 0.25, tokensPerSecond: 2, stepMs: 10 })
  t.same(tenantsOf(frames), [
    { tenant: 'a', share: 0.75, cachedShare: 0.25 },
    { tenant: 'b', share: 0.25, cachedShare: 0.25 },
  ])
  t.same(
    [...cachedFrom(frames)],
    [
      ['slot', 10],
      ['ram', 15],
    ],
  )
  const ending = { ...end, tenant: 'a', promptTokens: 52, cachedTokens: 46 }
  t.equal(cachedText({ ...ending, cache: { from: 'copy' } }), '46 of 52, copied from another slot')
  t.equal(cachedText(ending), '46 of 52, in the slot already')
  t.equal(cachedText({ ...ending, cachedTokens: 0 }), '0 of 52')
  t.equal(cachedText({ ...ending, cache: { from: 'disk' } }), '46 of 52, restored from disk')
  const { answers } = tokensBySecond(frames, 2900)
  t.same(answers.slice(-3), [0, 2, 2])
  t.end()
})

t.test('the picture of the slots: where spans are, and what is under the pointer', (t) => {
  const spans: ActivitySpan[] = [
    { id: 'a', slot: 1, kind: 'decode', atMs: 0, untilMs: 500, tokens: 5 },
    { id: 'b', kind: 'wait', atMs: 200, untilMs: 800, tokens: 0 },
    { id: 'c', kind: 'wait', atMs: 300, untilMs: 400, tokens: 0 },
    { id: 'd', slot: 0, kind: 'prefill', atMs: -900, untilMs: -100, tokens: 5 },
  ]
  const picture = { slots: [0, 1], spans, fromMs: 0, untilMs: 1000 }
  const beside = (chosen: string | undefined, by: number) =>
    besideChosen({ ...picture, chosen }, by)
  t.same([beside(undefined, -1), beside('c', -1), beside('a', 1)], ['c', 'b', 'b'])
  t.same([beside('d', -1), beside('c', 1)], ['d', 'c'], 'there is no one beyond the ends')
  t.equal(besideChosen({ ...picture, spans: [] }, 1), undefined)
  const placed = placeSpans(picture, 1058)
  t.same(
    placed.map(({ span, x, y, width }) => [span.id, x, y, width]),
    [
      ['a', 58, 18, 500],
      ['b', 258, 36, 600],
      ['c', 358, 54, 100],
    ],
  )
  t.equal(spanAt(placed, 100, 20)?.id, 'a')
  t.equal(spanAt(placed, 400, 60)?.id, 'c')
  t.equal(spanAt(placed, 900, 20), undefined)
  t.end()
})

t.test('the same load gives the same figures', async (t) => {
  const load = { ...usualLoad, requests: 30 }
  const ids = (prompt: SimulatedRequest['prompt']) =>
    typeof prompt === 'function' ? prompt() : prompt
  const plain = (made: typeof load) =>
    madeRequests(made).map(({ prompt, ...rest }) => ({ ...rest, length: ids(prompt).length }))
  t.same(plain(load), plain(load))
  t.notSame(plain(load), plain({ ...load, seed: 2 }))
  const job = {
    load: { kind: 'made', load },
    machine: 'gpu-8b',
    slots: 4,
    ownOrder: 'request.maxTokens',
    candidates: [],
  } as const
  const of = async (policy: string) => await runCandidate(job, { policy, options: {} })
  const [one, again, other] = [
    await of('chunked+fcfs'),
    await of('chunked+fcfs'),
    await of('static+fcfs'),
  ]
  t.same(one, again)
  t.equal(one.ttfts.length, 30)
  t.equal(one.failed, 0)
  const opened = openJob(job)
  const impatient = opened.requests.map((one) => ({ ...one, cancelAfterMs: 1 }))
  const left = await runCandidate(
    job,
    { policy: 'chunked+fcfs', options: {} },
    { ...opened, requests: impatient },
  )
  t.match(left, { failed: 0, ttfts: { length: 0 } }, 'a client that leaves is no failure')
  // more than a call has room for arguments
  const many = Array.from({ length: 200_000 }, (_, index) => index)
  const answers = many.map((arrival) => ({
    request: { ...opened.requests[0]!, arrival },
    tokenTimes: arrival === 9 ? many : [arrival],
    endedAt: arrival + 5,
  }))
  const { durationMs, longestPauses } = summarize(answers)
  t.same([durationMs, longestPauses.at(-1)], [200_004, 1])
  t.ok(one.ttfts.at(-1)! < other.ttfts.at(-1)!, 'waiting for a whole group takes longer')
  t.notSame((await of('chunked+own')).ttfts, one.ttfts, 'an order that was typed in')
  const typed = async (ownOrder: string) =>
    await runCandidate({ ...job, ownOrder }, { policy: 'chunked+own', options: {} })
  await t.rejects(typed('request.'), SyntaxError)
  await t.rejects(typed('"first"'), /gave first, which is no number/)
  await t.rejects(of('none+fcfs'), { code: 'invalid_policy' })
})

t.test('the lab reads files: recordings, and traces of both forms', async (t) => {
  const job = { machine: 'gpu-8b', slots: 2, ownOrder: '', candidates: [] } as const
  const open = (name: string, text: string, machine: string = job.machine) =>
    openJob({ ...job, machine, load: { kind: 'file', requests: 2, ...toLoadFile(name, text) } })
  const azure = 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,'
  const csv = open(
    'a.csv',
    `${azure}374,44\n2023-11-16 18:15:47.5,9000,109\n2023-11-16 18:15:48,5,5\n`,
  )
  t.match(csv.requests, [
    { arrival: 0, maxTokens: 44 },
    { arrival: 1000, maxTokens: 109 },
  ])
  t.equal(csv.requests.length, 2, 'no more than were asked for')
  t.equal(csv.contextSize, 9216, 'the longest has room')
  const line = (at: number) =>
    `{"timestamp": ${at}, "input_length": 600, "output_length": 9, "hash_ids": [7, ${at}]}`
  const lines = open('m.jsonl', `${line(0)}\n${line(5)}\n`)
  const [one, two] = lines.requests.map(({ prompt }) =>
    typeof prompt === 'function' ? prompt() : prompt,
  )
  t.same(one!.slice(0, 512), two!.slice(0, 512), 'what prompts share stays shared')
  t.notSame(one, two)
  const recording = {
    schema: 1,
    kind: 'recording',
    reason: 'asked',
    beginsAt: 0,
    durationMs: 900,
    model: 'm',
    limits: { slots: 3, contextSize: 512, batchSize: 128, kvTokens: 1024 },
    policy: 'adaptive+fcfs',
    policyOptions: {},
    blockTokens: 16,
    arrivals: [{ id: 'a', atMs: 5, promptTokens: 20, blocks: [1], tokens: 4, end: 'done' }],
    steps: [],
    engine: [],
  }
  const file = toLoadFile('r.json', JSON.stringify(recording))
  t.match(file, { isRecording: true, slots: 3 })
  t.match(open('r.json', file.text), {
    requests: [{ maxTokens: 4 }],
    contextSize: 512,
    kvTokens: 1024,
  })
  const many = Array.from({ length: 200_000 }, () => recording.arrivals[0])
  t.equal(recordedPrompts({ ...recording, arrivals: many } as Recording).length, many.length)
  t.throws(() => open('r.json', file.text, 'recorded'), /0 steps, too few/)
  t.throws(() => open('r.json', '{"kind":"recording","schema":2}'), /^r\.json: schema/)
  t.throws(() => open('r.json', JSON.stringify({ ...recording, arrivals: [] })), /no requests/)
  t.throws(() => open('a.csv', `${azure}x,4\n`), /a\.csv:2: ContextTokens: expected a whole/)
  t.throws(() => open('a.csv', 'no trace'), /a\.csv:1: expected the columns|has no requests/)
  t.throws(() => open('m.jsonl', `${line(5)}\n${line(0)}`), /m\.jsonl:2: timestamp: earlier/)
  t.throws(() => open('a.csv', `${azure}3,4\n`, 'nowhere'), /no machine nowhere/)
})
