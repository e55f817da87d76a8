import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { appendFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type ApiKey, hashKey, keyRing, openAiProtocol, usageProtocol } from '@cllm/http-koa'
import { goesOn } from '../../../src/routes/koa-context.js'
import {
  CllmError,
  type GenerateRequest,
  type Logger,
  silentLogger,
  SimulatedClock,
} from '@cllm/core'
import t, { type Test } from 'tap'
import { UsageJournal } from '../../../src/protocols/usage/usage-journal.js'
import { UsageLedger } from '../../../src/protocols/usage/usage-protocol.js'
import { requestScope } from '../../../src/security/authenticate.js'
import { eachWrite, madePipe, serve, until } from '../../serve.js'

const key = (name: string, more: Partial<ApiKey> = {}): ApiKey => ({
  name,
  tenant: `team-${name}`,
  role: 'user',
  hash: hashKey(`secret-of-${name}`),
  ...more,
})
const keys = [key('ann', { tokensPerMonth: 40 }), key('=bob'), key('root', { role: 'admin' })]

async function counting(t: Test, folder: string) {
  const security = { keys: keyRing(() => keys) }
  const served = await serve({
    protocols: [openAiProtocol(), usageProtocol({ folder })],
    backend: { embeddingSize: 2 },
    transport: { security },
  })
  t.teardown(served.close)
  const as = (name: string) => ({
    'Content-Type': 'application/json',
    Authorization: `Bearer secret-of-${name}`,
  })
  return {
    ...served,
    ask: (name: string, max_tokens: number) =>
      served.post(
        '/v1/completions',
        { prompt: [5, 6, 7], max_tokens, ignore_eos: true },
        { headers: as(name) },
      ),
    embed: (name: string, input: readonly string[]) =>
      served.post('/v1/embeddings', { input }, { headers: as(name) }),
    usage: (query = '', name = 'root') => served.get(`/admin/usage${query}`, { headers: as(name) }),
  }
}

t.test('usage by key and day, and the quota of a month', async (t) => {
  const folder = join(t.testdir({}), 'usage')
  const first = await counting(t, folder)
  t.equal((await first.ask('ann', 10)).status, 200)
  t.equal((await first.ask('=bob', 20)).status, 200)
  t.equal((await first.usage('', '=bob')).status, 403, 'admins see it')
  const sums = (await (await first.usage()).json()) as { usage: object[] }
  t.match(sums, { from: '1970-01-01', to: '1970-01-01' })
  t.match(
    new Set(sums.usage.map((sum) => JSON.stringify(sum))),
    new Set(
      [
        ['ann', 10],
        ['=bob', 20],
      ].map(([name, generated]) =>
        JSON.stringify({
          day: '1970-01-01',
          key: name,
          model: 'fake',
          requests: 1,
          unfinished: 0,
          prompt_tokens: 3,
          cached_tokens: 0,
          generated_tokens: generated,
        }),
      ),
    ),
  )
  await first.close()

  const [file = ''] = await readdir(folder)
  await appendFile(join(folder, file), '{"day":"1970-01-01","key":"ann","mo')
  const second = await counting(t, folder)
  t.equal((await second.ask('ann', 24)).status, 200)
  const refused = await second.ask('ann', 1)
  t.equal(refused.status, 429)
  t.match(await refused.json(), {
    error: { message: /40 tokens of 1970-01/, code: 'insufficient_quota' },
  })
  t.equal((await second.ask('=bob', 1)).status, 200)
  const csv = await second.usage('?by=key&format=csv')
  t.match(csv.headers.get('content-type'), /text\/csv/)
  t.same((await csv.text()).trim().split('\n').sort(), [
    "'=bob,2,0,6,0,21",
    'ann,2,0,6,0,34',
    'key,requests,unfinished,prompt_tokens,cached_tokens,generated_tokens',
  ])
  const counts = { requests: 0, unfinished: -1, promptTokens: 0, cachedTokens: 0 }
  const later = { day: '1970-02-01', key: 'ann', tenant: null, ...counts, generatedTokens: 7 }
  await appendFile(join(folder, '1970-02.jsonl'), JSON.stringify({ ...later, model: 'fake' }))
  const february = await second.usage('?by=key&format=csv&from=1970-02-01&to=1970-02-01')
  const [, ann] = (await february.text()).split('\n')
  t.equal(ann, 'ann,0,-1,0,0,7', 'what went on after midnight was unfinished on the day before')
  t.match(await (await second.usage('?by=hour')).json(), {
    error: 'by: expected day, key, tenant, model, instead got "hour"',
  })
  t.equal((await second.usage('?from=yesterday')).status, 400)
  second.clock.aheadMs = 31 * 86_400_000 // the machine slept for a month
  t.equal((await second.ask('ann', 1)).status, 200, 'it is another month')
  t.match(await (await second.usage('?by=day,key')).json(), {
    from: '1970-02-01',
    usage: [{ day: '1970-02-01', key: 'ann', requests: 1 }],
  })
})

t.test('inputs that are embedded are used, and within the quota of a month', async (t) => {
  const server = await counting(t, join(t.testdir({}), 'usage'))
  const made = await server.embed('ann', ['a'.repeat(30), 'b'.repeat(20)])
  const { usage } = (await made.json()) as { usage: { prompt_tokens: number } }
  t.equal(usage.prompt_tokens, 52)
  const refused = await server.embed('ann', ['c'])
  t.match(await refused.json(), { error: { code: 'insufficient_quota' } })
  t.equal(refused.headers.get('x-should-retry'), 'false', 'no program tries it again')
  t.equal((await server.embed('=bob', ['d'])).status, 200)
  const csv = await (await server.usage('?by=key&format=csv')).text()
  t.same(csv.trim().split('\n').slice(1).sort(), ["'=bob,1,0,2,0,0", 'ann,2,0,52,0,0'])
})

t.test('a request that pauses is one, and tenants without keys are bounded', async (t) => {
  const journal = new UsageJournal(t.testdir({}))
  const ledger = new UsageLedger(journal, new SimulatedClock(0), silentLogger)
  const left = new CllmError('cancelled', 'paused')
  const ask = (tenant: string, continued?: GenerateRequest['continued']) =>
    ledger.onSubmit({
      model: 'fake',
      request: { prompt: { text: '' }, tenant, ...(continued && { continued }) },
      at: 0,
    })
  // A batch's line makes room for a client before its model is loaded.
  ask('a').onEnd(0, goesOn)
  for (const [error, elapsedMs] of [[left], [left, 1], [undefined, 2]] as const) {
    const watch = ask('a', elapsedMs === undefined ? undefined : { tokens: [1], elapsedMs })
    watch.onEvent({ type: 'start', id: 'a', promptTokens: 50 }, 0)
    watch.onEvent({ type: 'token', token: 1, text: '' }, 0)
    watch.onEnd(0, error)
  }
  const counts = { requests: 1, unfinished: 0, promptTokens: 50, generatedTokens: 3 }
  t.match(journal.month('1970-01'), [{ tenant: 'a', ...counts }])
  for (let count = 0; count < 1100; count++) ask(`tenant-${count}`).onEnd(0)
  await journal.flush()
  const sums = journal.month('1970-01')
  t.equal(sums.length, 1001)
  t.match(
    sums.find(({ tenant }) => tenant === null),
    { requests: 101 },
  )
})

t.test('servers may share a folder: quotas and sums count what all of them wrote', async (t) => {
  const folder = t.testdir({})
  const file = join(folder, '1970-01.jsonl')
  const counts = { requests: 1, unfinished: 0, promptTokens: 1, cachedTokens: 0 }
  const one = { day: '1970-01-01', tenant: null, model: 'fake', ...counts, generatedTokens: 9 }
  const line = `${JSON.stringify({ ...one, key: 'ann' })}\n`
  writeFileSync(file, line)
  const [first, second] = [new UsageJournal(folder), new UsageJournal(folder)]
  const ledger = new UsageLedger(first, new SimulatedClock(0), silentLogger)
  const ask = (tokensPerMonth: number) =>
    requestScope.run({ key: key('ann', { tokensPerMonth }) }, () => ledger.onEmbed())
  ask(11)
  await second.add({ ...one, key: 'ann' })
  t.throws(() => ask(11), { code: 'rate_limited' }, 'it is at once the quota of both')
  ask(21)
  for (const journal of [first, second]) t.match(journal.month('1970-01'), [{ requests: 2 }])
  await new UsageJournal(folder).add({ ...one, key: 'bob' })
  t.equal(readFileSync(file, 'utf8').split('\n').length, 3, 'a third one has summed up lines')
  await first.add({ ...one, key: 'ann' })
  t.match(second.month('1970-01'), [{ requests: 3 }, { key: 'bob' }])

  // Another one is killed, or has no space left, in the middle of a line.
  appendFileSync(file, line.slice(0, -9))
  await first.add({ ...one, key: 'ann' })
  appendFileSync(file, line.slice(0, 9))
  await second.add({ ...one, key: 'ann' })
  t.match(second.month('1970-01'), [{ requests: 5 }, { key: 'bob' }], 'half a line is only itself')

  // Another one appends to what is being replaced by its sums.
  writeFileSync(file, line.repeat(2))
  const { stringify } = JSON
  t.teardown(() => (JSON.stringify = stringify))
  JSON.stringify = (value: unknown) => {
    if (!Array.isArray(value)) appendFileSync(file, line)
    return stringify(value)
  }
  const third = new UsageJournal(folder)
  third.month('1970-01')
  await third.flush()
  JSON.stringify = stringify
  t.match(third.month('1970-01'), [{ requests: 3 }], 'no line is lost')
  t.same(readdirSync(folder), ['1970-01.jsonl'])

  let isReplaced = false
  await eachWrite(t, async (write) => {
    if (!isReplaced) writeFileSync(`${file}.new`, readFileSync(file))
    if (!isReplaced) renameSync(`${file}.new`, file)
    isReplaced = true
    await write()
  })
  await second.add({ ...one, key: 'ann' })
  t.match(first.month('1970-01'), [{ requests: 4 }], 'nor one whose file is replaced meanwhile')
  rmSync(file)
  mkdirSync(file)
  t.match(first.month('1970-01'), [{ requests: 4 }], 'a disk that fails forgets nothing')
  t.throws(() => ask(21), { code: 'rate_limited' })
})

t.test('no answer waits for a slow disk: usage counts before it is written, once', async (t) => {
  const folder = t.testdir({})
  const server = await counting(t, folder)
  const writes: (() => void)[] = []
  await eachWrite(t, async (write) => {
    await write()
    await new Promise<void>((resolve) => writes.push(resolve))
  })
  for (const tokens of [1, 2, 4]) t.equal((await server.ask('ann', tokens)).status, 200)
  await until(() => writes.length > 0)
  const tokens = async () =>
    (await (await server.usage('?by=key&format=csv')).text()).split('\n')[1]
  t.equal(await tokens(), 'ann,3,0,9,0,7', 'a line that the disk may have or not counts once')
  t.equal((await server.ask('ann', 24)).status, 200)
  t.equal((await server.ask('ann', 1)).status, 429, 'the quota counts what waits')
  const closed = server.close()
  writes.shift()?.()
  await until(() => writes.length > 0)
  writes.shift()?.()
  await closed
  const lines = readFileSync(join(folder, '1970-01.jsonl'), 'utf8').trim().split('\n')
  const sums = lines.map((line) => JSON.parse(line) as { generatedTokens: number })
  t.same(
    sums.map((sum) => sum.generatedTokens),
    [1, 30],
    'the end of the server loses nothing',
  )
})

t.test('a month that cannot be read or summed up once is known later', async (t) => {
  const folder = t.testdir({})
  const file = join(folder, '1970-01.jsonl')
  const counts = { requests: 1, unfinished: 0, promptTokens: 1, cachedTokens: 0 }
  const one = { day: '1970-01-01', tenant: 'ünï', model: 'fake', ...counts, generatedTokens: 1 }
  const line = (key: string | null) => `${JSON.stringify({ ...one, key })}\n`
  // More than a block, with letters of two bytes at its end.
  writeFileSync(file, line('ann').repeat(10_000) + line('bob').slice(0, -9))
  const messages: string[] = []
  const error: Logger['error'] = (_, message) => messages.push(message)
  const logger = { ...silentLogger, error }
  const own = new UsageJournal(folder)
  const ledger = new UsageLedger(own, new SimulatedClock(0), logger)
  const ask = (name: string, tokensPerMonth?: number) =>
    requestScope.run(
      { key: key(name, tokensPerMonth === undefined ? {} : { tokensPerMonth }) },
      () => ledger.onSubmit({ model: 'fake', request: { prompt: { text: '' } }, at: 0 }),
    )

  // A directory in its place: it can be neither read nor written.
  renameSync(file, `${file}.away`)
  mkdirSync(file)
  ask('bob').onEnd(0)
  ask('bob').onEnd(0)
  ask('ann', 20_000)
  await t.rejects(own.flush(), { code: 'EISDIR' })
  t.match(messages, [/^usage cannot be recorded/], 'answers go on, and it is said once')
  rmdirSync(file)
  renameSync(`${file}.away`, file)
  mkdirSync(`${file}.new`)
  t.throws(() => ask('ann', 20_000), { code: 'rate_limited' })
  ask('cat').onEnd(0)
  await own.flush()
  const sums = new UsageJournal(folder).month('1970-01')
  t.match(sums, [
    { key: 'ann', requests: 10_000, tenant: 'ünï' },
    { key: 'bob', requests: 2 },
    { key: 'cat', requests: 1 },
  ])
  t.equal(sums.length, 3, 'what could not be written is written later')
  t.same(readdirSync(folder), ['1970-01.jsonl'])
  t.equal(messages.length, 1)

  writeFileSync(file, `null\n5\n[]\n{}\n${line('eve')}`)
  writeFileSync(join(folder, '1970-02.jsonl'), line('eve').replace('-01-01', '-02-02'))
  mkdirSync(join(folder, '1970-03.jsonl'))
  const problems: unknown[] = []
  const journal = new UsageJournal(folder)
  const days = () => journal.days('1970-01-01', '1970-03-31', (problem) => problems.push(problem))
  t.match(days(), [{ day: '1970-01-01' }, { day: '1970-02-02' }], 'what is damaged costs itself')
  renameSync(folder, `${folder}.away`)
  await t.rejects(journal.add({ ...one, key: 'eve' }), { code: 'ENOENT' })
  t.match(days(), [{ requests: 1 }, { requests: 1 }, { requests: 1 }])
  t.match(problems, [{ code: 'EISDIR' }, { code: 'ENOENT' }])
  renameSync(`${folder}.away`, folder)

  rmSync(file)
  if (!madePipe(file)) return
  await new UsageJournal(folder).add({ ...one, key: 'dan' })
  t.match(new UsageJournal(folder).month('1970-01'), [{ key: 'dan', requests: 1 }])
})
