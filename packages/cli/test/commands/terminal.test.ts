import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { access, chmod, copyFile, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { CllmError } from '@cllm/core'
import { plainEnvironment } from '@cllm/testing'
import t from 'tap'
import { AnswerPrinter } from '../../src/commands/chat/answer-printer.js'
import type { AnswerPart } from '../../src/commands/chat/chat-stream.js'
import { chatInteractively } from '../../src/commands/chat/chat-interactively.js'
import { Conversation } from '../../src/commands/chat/conversation.js'
import { ServerClient } from '../../src/commands/server/server-client.js'
import { dispatch } from '../../src/dispatch.js'
import { catalogSampling } from '../../src/models/catalog/catalog.js'
import { commandIo, inside as runInside } from '../inside.js'
import { firstChildOf, gone } from '../plain-process.js'
import { model, serve } from '../serve-process.js'
import { bin, killAfter } from '../start-process.js'

const key = 'a-key-for-the-terminal'
const served = ['--model', model, '--model-id', 'stories', '--slots', '2', '--api-key', key]
const { url } = await serve(t, ...served)
/** Where the commands find the server without being told. */
const here = { CLLM_PORT: new URL(url).port, CLLM_API_KEY: key }
const greedy = ['--parameter', 'temperature=0', '--parameter', 'max_tokens=20']
/** A port that nothing listens on: a command that finds no server starts one. */
const nowhere = { CLLM_PORT: '2' }
const ownServer = ['--', '--threads', '1', '--gpu', 'off']

function start(argv: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  return spawn(process.execPath, [bin, ...argv], {
    env: plainEnvironment(process.env, env),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

/** Runs `cllm` as a shell does, with this on its standard input. */
async function cllm(argv: readonly string[], env: NodeJS.ProcessEnv, stdin = '') {
  const child = start(argv, env)
  child.stdin!.end(stdin)
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout!),
    text(child.stderr!),
    once(child, 'exit') as Promise<[number]>,
  ])
  return { code, stdout, stderr }
}

/** The same in this process. */
const inside = async (argv: readonly string[], env: NodeJS.ProcessEnv = here) =>
  await runInside(argv, env)

/** What the server answers to this prompt. */
async function answerTo(content: string): Promise<string> {
  const messages = [{ role: 'user', content }]
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ messages, temperature: 0, max_tokens: 20 }),
  })
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
  return choices[0]!.message.content.trimStart()
}

t.test('cllm run answers a prompt, and what is piped in', async (t) => {
  const once_ = await inside(['run', 'stories', 'Once upon a time', ...greedy])
  t.same(once_, {
    code: 0,
    stdout: `${(await answerTo('Once upon a time')).trimEnd()}\n`,
    stderr: '\n(cut off after 20 tokens)\n',
  })
  t.ok(once_.stdout.length > 20)
  const piped = await cllm(
    ['run', 'stories', 'Once', ...greedy, '--url', url, '--api-key', key, '--verbose'],
    {},
    'upon a time\n',
  )
  t.match(piped, { code: 0, stdout: await answerTo('Once\n\nupon a time') })
  t.match(piped.stderr, /answer +20 tokens, [\d.]+ tokens\/s/)

  const leaving = new AbortController()
  const io = commandIo(leaving.signal)
  const waiting = dispatch(['run', 'stories', 'Once'], { ...io, stdin: new PassThrough() })
  setImmediate(() => leaving.abort('SIGINT'))
  t.equal(await waiting, 130, 'Ctrl-C ends it while nothing ends its input')
})

/** What a printer writes of an answer that comes in these pieces, on a terminal with this environment or in a pipe. */
function printed(parts: readonly AnswerPart[], env?: NodeJS.ProcessEnv): string {
  let written = ''
  const output = { write: (part: string) => void (written += part), isTTY: env !== undefined }
  const printer = new AnswerPrinter(output, env !== undefined, env ?? {})
  for (const part of parts) printer.show(part)
  printer.end()
  printer.end()
  return written.replaceAll('\r\u001B[K', '').replaceAll('\u001B[', '^')
}

t.test('what a model thinks is shown dimmed in a terminal, and not at all in a pipe', (t) => {
  const parts = [
    { type: 'thinking', text: '\nHm' },
    { type: 'thinking', text: ', four.' },
    { type: 'text', text: '\n\n4' },
  ] as const
  t.equal(printed(parts, {}), '^2mHm^0m^2m, four.^0m\n\n4\n')
  t.equal(printed(parts, { NO_COLOR: '1' }), 'Hm, four.\n\n4\n')
  t.equal(printed(parts), '4\n')
  t.end()
})

t.test('Markdown has styles in a terminal, and each of its characters in its place', (t) => {
  const text = `# One \`a\`
Some **bold \`code\`** words, 2 ** 3 and **kwargs
\`**\` \`\`a\`b\`\` ***
  \`\`\`js
  let a = \`**\` // #
# no heading
  \`\`\`
~~~
\`\`\`
~~~
- **x**: 日本語 #5`
  const whole = printed([{ type: 'text', text }], {})
  t.equal(
    whole,
    `^1m# One ^0m^2m\`^0m^1;36ma^0m^2m\`^0m
Some ^2m**^0m^1mbold ^0m^2m\`^0m^1;36mcode^0m^2m\`^0m^2m**^0m words, 2 ** 3 and ^2m**^0m^1mkwargs^0m
^2m\`^0m^36m**^0m^2m\`^0m ^2m\`\`^0m^36ma^0m^36m\`^0m^36mb^0m^2m\`\`^0m ***
^2m  ^0m^2m\`\`\`^0m^2mjs^0m
^36m  let a = ^0m^36m\`^0m^36m**^0m^36m\`^0m^36m // #^0m
^36m# no heading^0m
^2m  ^0m^2m\`\`\`^0m
^2m~~~^0m
^36m\`\`\`^0m
^2m~~~^0m
- ^2m**^0m^1mx^0m^2m**^0m: 日本語 #5
`,
  )
  const plain = (drawn: string): string => drawn.replaceAll(/\^[\d;]+m/g, '')
  const styles = (drawn: string): string[] =>
    drawn
      .split(/(?=\^)/)
      .flatMap((part) => Array.from(plain(part)).map((each) => each + /^\^[\d;]*|/.exec(part)![0]))
  const pieces = Array.from(text).map((each) => ({ type: 'text', text: each }) as const)
  t.same(styles(printed(pieces, {})), styles(whole), 'in whatever pieces it comes')
  for (const env of [undefined, { NO_COLOR: '1' }, { TERM: 'dumb' }]) {
    t.equal(printed([{ type: 'text', text }], env), `${text}\n`)
  }
  t.end()
})

t.test('a terminal counts the seconds until something comes', (t) => {
  let tick = (): void => {}
  t.intercept(globalThis, 'setInterval', { value: (run: () => void) => ((tick = run), 1) })
  let written = ''
  const write = (part: string): void => void (written += part)
  const printer = new AnswerPrinter({ write, isTTY: true }, false, {})
  tick()
  printer.show({ type: 'thinking', text: 'hidden' })
  t.match(written, /^\r… \d s$/, 'what is not shown is not come')
  printer.show({ type: 'text', text: 'Hi' })
  t.match(written.replaceAll('\u001B[', '^'), /^\r… \d s\r\^KHi$/)
  tick = () => {}
  new AnswerPrinter({ write, isTTY: false }, false, {}).end()
  new AnswerPrinter({ write, isTTY: true }, false, { TERM: 'dumb' }).end()
  t.match(written, /KHi$/, 'a pipe and a terminal that cannot erase stay as they are')
  t.end()
})

t.test('cllm run says what is wrong', async (t) => {
  const cases: readonly [string[], NodeJS.ProcessEnv, number, RegExp][] = [
    [['run', 'stories', 'x'], { ...here, CLLM_API_KEY: 'another' }, 1, /^error: .*[Kk]ey/],
    [['run', 'qwen3-0.6b', 'x', '--url', url], here, 1, /does not serve .* one of stories/],
    [['run', 'stories'], here, 2, /a prompt is missing \(a word alone is a model\)/],
    [['run', 'stories', 'x', '--parameter', 'top_p=2'], here, 2, /--parameter: top_p: .* 0 to 1/],
    [
      ['run', 'stories', 'x', '--parameter', 'x=1'],
      here,
      2,
      /--parameter: unknown parameter x: .* stop$/m,
    ],
    [
      ['run', 'stories', 'x', '--image', 'none.png'],
      here,
      1,
      /none.png: expected an image .* no such/,
    ],
    [['run', 'stories', 'x', '--url', 'ftp://x'], here, 2, /--url: expected an http URL/],
  ]
  for (const [argv, env, code, message] of cases) {
    t.match(await inside(argv, env), { code, stdout: '', stderr: message }, argv.join(' '))
  }
})

t.test(
  'cllm run without a model, or with one that is not here, takes the running one',
  async (t) => {
    const [answer, cache] = [await answerTo('Once upon a time'), t.testdir({})]
    t.match(await inside(['run', 'Once upon a time', ...greedy]), {
      code: 0,
      stdout: answer.trimEnd(),
    })
    const other = await inside(['run', 'qwen3-0.6b', 'Once upon a time', ...greedy], {
      ...here,
      CLLM_CACHE: cache,
    })
    t.match(other, { code: 0, stdout: answer.trimEnd() })
    t.match(
      other.stderr,
      /^qwen3-0\.6b is not downloaded.* this is stories, which the server at http/,
    )
    const unknown = await inside(['run', 'hello', 'Once upon a time', ...greedy])
    t.match(unknown, { code: 0, stderr: /^hello is no known model; this is stories, / })
  },
)

t.test(
  'cllm run takes a lone word before piped input as the prompt, if no model has it',
  async (t) => {
    const piped = await cllm(['run', 'Summarize', ...greedy], here, 'Once upon a time\n')
    t.match(piped, {
      code: 0,
      stdout: await answerTo('Summarize\n\nOnce upon a time'),
      stderr: /^Summarize is no known model: it is taken as the prompt\n/,
    })
    const misspelt = await cllm(['run', 'qwen3-0.7b', ...greedy], here, 'Once upon a time')
    t.match(misspelt, {
      code: 0,
      stdout: await answerTo('Once upon a time'),
      stderr: /^qwen3-0\.7b is no known model; this is stories, /,
    })
  },
)

t.test('cllm run says once why its server did not start', async (t) => {
  const { code, stdout, stderr } = await cllm(['run', './none.gguf', 'x', ...ownServer], nowhere)
  t.match({ code, stdout }, { code: 1, stdout: '' })
  t.match(
    stderr,
    /^error: cannot read the model .*none\.gguf: there is no such file or folder: .*none\.gguf\n$/,
  )
})

t.test('answers of the 2-bit model end, in a terminal too', async (t) => {
  t.ok((catalogSampling('tinyllama-1.1b-chat').repetitionPenalty ?? 1) > 1)
  const bodies: unknown[] = []
  const client = {
    async *events(_path: string, body: unknown) {
      bodies.push(body)
      yield {}
    },
  } as unknown as ServerClient
  const { signal } = new AbortController()
  const limits: readonly [string, Record<string, unknown>, number | undefined][] = [
    ['tinyllama-1.1b-chat', {}, 512],
    ['tinyllama-1.1b-chat', { max_tokens: 2000 }, 2000],
    ['qwen3-0.6b', {}, undefined],
  ]
  for (const [model, parameters] of limits) {
    for await (const _ of new Conversation(client, model, { parameters }).ask('Hi', signal));
  }
  t.same(
    bodies.map((body) => (body as { max_tokens?: number }).max_tokens),
    limits.map(([, , limit]) => limit),
  )
})

t.test('cllm run starts a server of its own, and Ctrl-C ends both', async (t) => {
  const folder = t.testdir({})
  // What is the service's: this server has none of it.
  const service = {
    ...nowhere,
    CLLM_API_KEYS: join(folder, 'keys.json'),
    CLLM_REQUESTS_PER_MINUTE: '1',
    CLLM_TLS_CERT: join(folder, 'cert.pem'),
    CLLM_TLS_KEY: join(folder, 'key.pem'),
    CLLM_BATCHES: join(folder, 'batches'),
    CLLM_BATCH_SHARE: '0.1',
    CLLM_USAGE: join(folder, 'usage'),
    CLLM_CLUSTER: 'redis://127.0.0.1:1',
    CLLM_CLUSTER_KEYS: 'true',
    CLLM_CLUSTER_BATCHES: 'true',
    CLLM_WORKERS: '2',
  }
  const answer = await inside(['run', model, 'Once upon a time', ...greedy, ...ownServer], service)
  t.match(answer, { code: 0, stdout: await answerTo('Once upon a time') })
  t.same(await readdir(folder), [])

  const locked = ['run', model, 'Once', ...ownServer, '--api-key', 'not what the command has']
  t.match(await inside(locked, nowhere), { code: 1, stderr: /key/ }, 'and ends the server')

  // It repeats itself for ever: a story may be over before a busy machine comes to the signal.
  const endless = ['temperature=0', 'frequency_penalty=-2', 'max_tokens=1000000']
  const parameters = endless.flatMap((each) => ['--parameter', each])
  const argv = ['run', model, 'Once', ...parameters, ...ownServer, '--context-shift']
  const child = killAfter(t, start(argv, nowhere))
  child.stdin!.end()
  const server = await firstChildOf(child)
  await once(child.stdout!, 'data')
  child.kill('SIGINT')
  t.same(await once(child, 'exit'), [130, null])
  await gone(server)
})

/** A terminal in which somebody types. */
function terminal() {
  const stdin = Object.assign(new PassThrough(), { isTTY: true })
  let shown = ''
  let look = (): void => {}
  const write = (part: string): void => {
    shown += part
    look()
  }
  return {
    io: {
      stdin,
      stdout: { write, isTTY: true },
      stderr: { write },
      env: plainEnvironment(process.env, here),
      signal: new AbortController().signal,
    },
    /** Types, then waits for this text; returns what was shown until then. */
    type: async (keys: string, until: RegExp | string): Promise<string> => {
      await new Promise(setImmediate) // what is typed does not come in the middle of an output
      shown = ''
      stdin.write(keys)
      while (!(typeof until === 'string' ? shown.includes(until) : until.test(shown))) {
        await new Promise<void>((resolve) => (look = resolve))
      }
      return shown
    },
  }
}

t.test('a chat in the terminal', async (t) => {
  const { io, type } = terminal()
  const prompt = '>>> '
  const running = dispatch(['run', 'stories', '--parameter', 'temperature=0'], io)
  await type('', prompt)
  t.match(await type('/?\r', /leaves at an empty prompt.*>>> /s), '/save <file>')
  t.match(await type('/set parameter top_k 0.5\r', />>> $|>>> \S*$/), 'error: top_k: expected')
  await type('/set parameter max_tokens 20\r', 'max_tokens is 20')
  await type('/set system You tell stories.\r', 'set the system message')
  await type('/set system\r', 'no system message')
  await type('"""Once\r', '... ')
  const told = await type('upon a time"""\r', /cut off after 20 tokens\)\n\n.*>>> /s)
  t.ok(told.includes((await answerTo('Once\nupon a time')).trimEnd()))
  await type('\u001B[200~Tell me\rmore.\u001B[201~', 'more.')
  await type('\r', /cut off after 20 tokens\)\n\n.*>>> /s)
  t.match(
    await type('/show history\r', /user: Tell me\nmore\.\n.*>>> /s),
    'user: Once\nupon a time\n',
  )
  t.match(await type('/show info\r', /head_count_kv.*>>> /s), /general\.architecture +llama/)

  const folder = t.testdir({ 'a.webp': 'pixels' })
  t.match(
    await type('/image a.txt\r', />>> \S*$/),
    'error: a.txt: expected a name that ends in .png',
  )
  await type(`/image ${join(folder, 'a.webp')}\r`, 'goes with the next question')
  t.match(await type('See?\r', /error:.*>>> /s), 'image input is not supported')
  const file = join(folder, 'chat.json')
  await type(`/save ${file}\r`, 'saved 4 messages')
  await type('/clear\r', 'cleared')
  t.match(JSON.parse(await readFile(file, 'utf8')), {
    model: 'stories',
    messages: [{ role: 'user', content: 'Once\nupon a time' }, {}, {}, {}],
  })
  t.match(await type('/he\t', '/help'), '/help', 'the tab key completes a command')
  await type('\r', 'Go on with a saved')
  await type('/set parameter temp\t', '/set parameter temperature')
  await type('\u0003', prompt)
  await type('/set noth\t', '/set nothink')
  await type('\u0003', prompt)
  t.match(await type('/sav x\r', 'unknown'), 'did you mean /save?; /help lists them')
  await type('/load none.json\r', 'error: there is no such file or folder: none.json')
  await type(`/load ${file}\r`, '4 messages')

  await type('/set parameter max_tokens 5000\r', 'is 5000')
  await type('/set nothink\r', 'does not think')
  await type('/clear\r', 'cleared')
  await type('Tell me a very long story.\r', /long story\.\r?\n\s*\S+ \S+/)
  t.match(await type('\u0003', prompt), prompt, 'Ctrl-C stops the answer')
  t.match(await type('/nonsense\r', />>> \S*$/), 'unknown command /nonsense')
  await type('half a line', 'line')
  await type('\u0003', prompt)
  await type('\u0003', /\n$/)
  t.equal(await running, 0, 'at an empty prompt it leaves')
})

t.test('a tool is run when the person at the terminal agrees', async (t) => {
  const call = { index: 0, id: 'call_1', function: { name: 'weather__forecast', arguments: '{}' } }
  const deltas = [
    { tool_calls: [call] },
    { content: 'Sunny.' },
    { tool_calls: [call] },
    { content: 'Why?' },
    { tool_calls: [{ ...call, function: { ...call.function, arguments: '{' } }] },
    { content: 'So.' },
    { content: 'Then.' },
  ]
  const asked: string[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (part) => (body += String(part)))
    request.on('end', () => {
      asked.push(`${request.url} ${body}`)
      const usage = { prompt_tokens: 1, completion_tokens: 1 }
      if (request.url === '/mcp/call') return response.end('{"content":"sun"}')
      if (request.url === '/mcp/tools') {
        const data = [{ name: 'weather__forecast', parameters: {} }]
        return response.end(JSON.stringify({ data, problems: ['The MCP server maps is away'] }))
      }
      const chunk = { choices: [{ delta: deltas.shift() }], usage }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const { io, type } = terminal()
  const client = new ServerClient({ url: new URL(`http://127.0.0.1:${port}`) })
  const conversation = new Conversation(client, 'a model')
  const chat = { ...io, showThinking: false, hasTools: true }
  const running = chatInteractively(conversation, client, chat)
  await type('', /maps is away[^]*>>> /)
  await type('How is it?\ry\r', 'Run weather__forecast {}? [y/N] ')
  t.notMatch(asked.at(-1), '/mcp/call', 'what was typed before is no consent')
  await type('y\r', 'Sunny.')
  t.match(asked.slice(2), [/^\/mcp\/call .*weather__forecast/, /"role":"tool".*"content":"sun"/])
  await type('', '[y/N] ')
  await type('n\r', /Why\?[^]*>>> /)
  t.match(asked.at(-1), /The user refused this call/)
  t.match(
    conversation.messages.map(({ role }) => role).join(' '),
    /^user assistant tool assistant user assistant tool assistant$/,
  )
  await type('Again?\r"""And\r', '[y/N] ')
  await type('y\r', /So\.[^]*\.\.\. /)
  t.match(asked.at(-1), /"role":"tool".*JSON/, 'the model is told of a call that fails')
  await type('then?"""\r', />>> /)
  t.match(asked.at(-1), /And\\nthen\?/, 'what was begun before goes on')
  await type('/bye\r', '')
  await running
  t.match(await inside(['run', '--mcp', 'stories', 'Hi']), { code: 2, stderr: /needs a chat/ })
})

t.test(
  'a question that fails keeps its image for the next one, unless no model here takes it',
  async (t) => {
    const failures = ['target_unavailable', 'unsupported', undefined] as const
    const asked: string[] = []
    const client = {
      async *events(_: string, body: object) {
        asked.push(JSON.stringify(body))
        yield { choices: [{ delta: { content: 'Half an **ans' } }] }
        const code = failures[asked.length - 1]
        if (code !== undefined) throw new CllmError(code, 'no more')
      },
    } as unknown as ServerClient
    const { io, type } = terminal()
    const conversation = new Conversation(client, 'a model')
    conversation.attach({ type: 'image_url', image_url: { url: 'data:picture' } })
    const running = chatInteractively(conversation, client, {
      ...io,
      showThinking: false,
      hasTools: false,
    })
    const shown = await type('Look.\r', /error[^]*>>> /)
    t.match(
      shown,
      /ans\S*\nerror: no more\nwhat is attached goes with the next question\n/,
      'in a line of its own',
    )
    t.match(await type('Look again.\r', /error[^]*>>> /), /error: no more\n[^w]*>>> /)
    await type('And now?\r', />>> /)
    await type('/bye\r', '')
    await running
    t.same(
      asked.map((body) => body.includes('data:picture')),
      [true, true, false],
    )
  },
)

t.test(
  'cllm run --url takes another program’s server, which may list models as OpenAI does',
  async (t) => {
    const server = createServer((request, response) => {
      response.statusCode = request.url === '/v1/models' ? 200 : 404
      if (request.url !== '/v1/chat/completions') return response.end('{"data":[{"id":"other"}]}')
      const usage = { prompt_tokens: 1, completion_tokens: 1 }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(
        `data: ${JSON.stringify({ choices: [{ delta: { content: 'Hi' } }], usage })}\n\n`,
      )
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const at = ['--url', `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`]
    t.match(await inside(['run', 'How are you?', ...at]), { code: 0, stdout: 'Hi\n', stderr: '' })
    const wrong = await inside(['run', 'another', 'How are you?', ...at])
    t.match(wrong, { code: 1, stderr: /does not serve another: expected one of other\n/ })
  },
)

t.test('what is not sent along is not forgotten', async (t) => {
  const client = new ServerClient({ url: new URL(url), apiKey: key })
  const talk = new Conversation(client, 'stories', { parameters: { max_tokens: 3 } })
  const ask = async (question: string): Promise<void> => {
    for await (const _ of talk.ask(question, new AbortController().signal));
  }
  await ask('One')
  talk.settings.history = false
  await ask('Two')
  const asked = talk.messages.filter(({ role }) => role === 'user').map(({ content }) => content)
  t.same(asked, ['One', 'Two'])
})

t.test('a running server is looked at, and its model is unloaded', async (t) => {
  t.match((await inside(['ps'])).stdout, /stories .* loaded .* 16\.2 MB/)
  const top = await inside(['top', '--once'])
  t.match(top, { code: 0, stdout: /slots of stories[\s\S]* 1 .* idle .* of 256 / })
  t.notMatch(top.stdout, '\u001B')
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'x-request-id': 'asked-why',
  }
  const body = JSON.stringify({ prompt: 'Once', max_tokens: 2, ignore_eos: true })
  await fetch(`${url}/generate`, { method: 'POST', headers, body })
  t.match(await inside(['why', 'asked-why']), {
    code: 0,
    stdout: /^(It waited .*\n)?After .* it got slot \d[^]*it ended with 2 tokens \(length\)\.\n$/,
  })
  t.match(await inside(['why', 'nobody']), { code: 1, stderr: /has the id "nobody"/ })
  t.match(await inside(['stop', 'stories']), { code: 0, stdout: /^stories is unloaded/ })
  t.match(JSON.parse((await inside(['ps', '--json'])).stdout), [])
  t.match(await inside(['stop', 'nothing']), { code: 1, stderr: /nothing/ })
  t.match(await inside(['ps'], nowhere), {
    code: 1,
    stderr: /no server answers at .*:2: .*ECONNREFUSED.*; `cllm serve` starts one/,
  })
  const cause = new Error('self-signed certificate')
  const value = async () => await Promise.reject(new TypeError('fetch failed', { cause }))
  const { restore } = t.intercept(globalThis, 'fetch', { value })
  t.match(await inside(['ps'], nowhere), { stderr: /self-signed certificate; NODE_EXTRA_CA_CERTS/ })
  restore()
  t.match(await inside(['ps'], { CLLM_HOST: 'http://127.0.0.1' }), {
    code: 2,
    stderr: /server\.host: expected an address, got "http:/,
  })
  t.match(await inside(['run', 'stories', 'One day', ...greedy]), { code: 0 }, 'it is loaded again')
})

t.test('models on the disk', async (t) => {
  const cache = t.testdir({ 'other.gguf': 'GGUF', 'notes.txt': '' })
  const env = { ...nowhere, CLLM_CACHE: cache }
  const file = join(cache, 'stories15m-q8_0.gguf')
  await copyFile(model, file)
  const listed = JSON.parse((await inside(['list', '--json'], env)).stdout) as { name: string }[]
  t.same(
    listed.map(({ name }) => name),
    [join(cache, 'other.gguf'), 'stories15m'],
  )
  t.match((await inside(['list'], env)).stdout, /stories15m .*16\.9 MB/)
  t.match((await inside(['show', 'stories15m'], env)).stdout, /training context +256\n/)
  const far = await inside(['show', 'qwen3-4b', '--json'], env)
  t.match(JSON.parse(far.stdout), { file: 'not downloaded', source: [/no known checksum/] })
  const meant = await inside(['fit', 'qwen3-04b'], env)
  t.match(meant.stderr, /qwen3-04b is no file .*; did you mean qwen3-4b\?/)
  const fit = await inside(['fit', 'qwen3-14b', '--json'], { ...env, CLLM_GPU: 'off' })
  const { rows } = JSON.parse(fit.stdout) as { rows: { contextSize: number; memory: number[] }[] }
  t.equal(rows.at(-1)?.contextSize, 40_960)
  t.ok(
    rows.every(({ memory }) => memory.every((bytes, index) => bytes > (memory[index - 1] ?? 9e9))),
  )
  const seeing = await inside(['fit', 'smolvlm2'], { ...env, CLLM_GPU: 'off' })
  t.match(seeing.stdout, /^smolvlm2: .* for the model, 989 MB for the projector in RAM; /)
  const small = await inside(['fit', file], { ...env, CLLM_GPU: 'off' })
  t.match(small.stdout, /│ 256 +│ .* ✓[^]*\nrun: cllm serve --model .* --slots 8 --ctx-size 256\n$/)
  t.match(await inside(['rm', '../notes.txt'], env), { code: 1, stderr: /is not downloaded/ })
  t.match(await inside(['rm', 'stories15m'], env), { code: 0, stdout: /^deleted .*16\.9 MB/ })
  await t.rejects(access(file))
  t.same((await readdir(cache)).sort(), ['notes.txt', 'other.gguf'])
})

t.test('a file that a server has in memory under other names is unloaded first', async (t) => {
  const cache = t.testdir({
    'big-00001-of-00002.gguf': 'GGUF',
    'big-00002-of-00002.gguf': 'GGUF.',
    'mmproj-big-00001-of-00002.gguf': 'GGUF..',
  })
  const file = join(cache, 'big-00001-of-00002.gguf')
  const states = { chat: 'loaded', 'chat:sql': 'loaded', other: 'loaded', away: 'unloaded' }
  const data = Object.entries(states).map(([id, value]) => ({ id, status: { value } }))
  const unloaded: string[] = []
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { pathname, searchParams } = new URL(request.url!, 'http://host')
      const isChat = searchParams.get('model') === 'chat'
      if (body !== '') unloaded.push(`${body} ${existsSync(file)}`)
      const path = isChat ? file : '/elsewhere.gguf'
      response.end(JSON.stringify({ data: pathname === '/models' ? data : { model_path: path } }))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const env = { CLLM_PORT: String(port), CLLM_CACHE: cache }
  const listed = JSON.parse((await inside(['list', '--json'], env)).stdout) as object[]
  t.match(listed, [{ path: file, bytes: 15, files: { length: 3 } }])
  t.equal(listed.length, 1)
  const deleted = /^deleted .*00001.*00002.*mmproj.*gguf \(15 B\)\n$/
  t.match(await inside(['rm', file], env), { code: 0, stdout: deleted })
  t.same(unloaded, ['{"model":"chat"} true'])
  t.same(await readdir(cache), [], 'and all of its parts are deleted')
})

t.test('completion', async (t) => {
  const { stdout, code } = await inside(['completion', 'bash'])
  t.equal(code, 0)
  const complete = async (...words: string[]): Promise<string[]> => {
    const script = `${stdout}\nCOMP_WORDS=(${words.join(' ')}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _cllm; echo "\${COMPREPLY[@]}"`
    const shell = spawn('bash', ['-c', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    return (await text(shell.stdout)).trim().split(' ')
  }
  t.same(await complete('cllm', 'comp'), ['completion'])
  t.same(await complete('cllm', 'serve', '--ctx'), ['--ctx-size'])
  t.ok((await complete('cllm', 'serve', '--no-m')).includes('--no-mmap'))
  t.same(await complete('cllm', 'bench', 'comp'), ['compare'])
  t.same(await complete('cllm', 'keys', 'add', '--ten'), ['--tenant'])
  t.same(await complete('cllm', 'run', 'stor'), ['stories15m'])
  for (const shell of ['zsh', 'fish']) t.match((await inside(['completion', shell])).code, 0)
  t.match(await inside(['completion', 'tcsh']), { code: 2, stderr: /bash, zsh or fish/ })
})

/** An agent: it writes down what it was started with, and asks the server once. */
const fakeAgent = `#!${process.execPath}
const { argv, env } = process
const config = env.OPENCODE_CONFIG_CONTENT && JSON.parse(env.OPENCODE_CONFIG_CONTENT).provider.cllm
const override = (name) => argv.find((word) => word.startsWith(name + '='))?.split('=')[1]
const quoted = (name) => JSON.parse(override(name) ?? '""')
const after = (flag) => argv[argv.indexOf(flag) + 1]
const qwen = argv.includes('--openai-base-url')
const claude = env.ANTHROPIC_BASE_URL
const base = claude
  ? claude + '/v1/messages'
  : (config?.options.baseURL || env.OPENAI_API_BASE || (qwen && after('--openai-base-url')) || quoted('model_providers.cllm.base_url')) +
    (override('model') ? '/responses' : '/chat/completions')
const token = env.ANTHROPIC_AUTH_TOKEN || config?.options.apiKey || env.OPENAI_API_KEY || env[quoted('model_providers.cllm.env_key')]
const model = env.ANTHROPIC_MODEL || (config && Object.keys(config.models)[0]) || env.AIDER_MODEL?.replace('openai/', '') || (qwen && after('--model')) || quoted('model')
const asked = override('model')
  ? { input: 'Once', max_output_tokens: 5 }
  : { messages: [{ role: 'user', content: 'Once' }], max_tokens: 5 }
fetch(base, {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer ' + token },
  body: JSON.stringify({ model, ...asked }),
}).then(async (response) => {
  require('node:fs').writeFileSync(env.SAID, JSON.stringify({ base, model, rest: argv.slice(2), status: response.status, answer: await response.json(), context: Number(override('model_context_window') ?? config?.models[model]?.limit.context), inputs: config?.models[model]?.modalities?.input, home: env.HOME }))
  process.exitCode = response.ok ? 7 : 1
})
`

t.test('cllm launch points an agent at the server', async (t) => {
  const folder = t.testdir({ home: {}, bin: { 'package.json': '{}' } })
  for (const name of ['claude', 'codex', 'opencode', 'qwen', 'aider']) {
    const file = join(folder, 'bin', name)
    await writeFile(file, fakeAgent)
    await chmod(file, 0o755)
    const env = {
      ...here,
      HOME: join(folder, 'home'),
      SAID: join(folder, `${name}.json`),
      PATH: `${folder}/bin:${process.env['PATH']}`,
    }
    const { code } = await inside(['launch', name, '--', '--help', '-p', 'a "quoted" word'], env)
    t.equal(code, 7, `${name}: its own exit code`)
    const said = await readFile(env.SAID, 'utf8')
    t.match(
      JSON.parse(said),
      { status: 200, model: 'stories', base: new RegExp(`^${url}/v1/`) },
      name,
    )
    const { rest, context, inputs } = JSON.parse(said) as {
      readonly inputs?: readonly string[]
      readonly rest: readonly string[]
      readonly context: number | null
    }
    // they sum up before its end
    t.equal(context, name === 'codex' || name === 'opencode' ? 256 : null, name)
    if (name === 'opencode') t.same(inputs, ['text'], 'what it may show the model')
    t.same(rest.slice(-3), ['--help', '-p', 'a "quoted" word'])
  }
  t.same(await readdir(join(folder, 'home')), [], 'none of the user’s files is made')

  const env = { ...nowhere, PATH: join(folder, 'bin') }
  t.match(await inside(['launch', 'claud'], env), { code: 2, stderr: /did you mean claude/ })
  t.match(await inside(['launch', 'claude'], env), { code: 2, stderr: /name the model/ })
  for (const word of ['-p', 'exec']) {
    const stderr = new RegExp(`${word}"?; what is passed on stands behind \`--\``)
    t.match(await inside(['launch', 'claude', word], env), { code: 2, stderr })
  }
  const model = ['--model', '/nowhere/a.gguf']
  const missing = await inside(['launch', 'aider', ...model], { ...nowhere, PATH: '/nowhere' })
  t.match(missing, { code: 2, stderr: /aider is not installed: `pipx install/ })
})
