import {
  chmodSync,
  chownSync,
  lstatSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { silentLogger } from '@cllm/core'
import t from 'tap'
import { toDocument } from '../../src/commands/serve/config.js'
import { loadConfig } from '../../src/config/load-config.js'
import { takeRights, openKeyRing } from '../../src/keys/keys.js'
import { inside } from '../inside.js'

const run = async (...argv: readonly string[]) => await inside(argv)

/** What a file's watcher does next; it alone would not keep the process alive. */
const until = async (condition: () => boolean): Promise<void> => {
  while (!condition()) await delay(10)
}

t.test('keys are made, listed and revoked, and only their hashes are kept', async (t) => {
  const file = join(t.testdir(), 'keys.json')
  const flags = ['--api-keys', file]
  const limits = ['--requests-per-minute', '60', '--tokens-per-minute', '9000']
  const ann = await run('keys', 'add', 'ann', '--tenant', 'shop', ...limits, ...flags)
  t.equal(ann.code, 0)
  t.match(ann.stdout, /^cllm_[\w-]{43}\n$/)
  const root = await run('keys', 'add', 'root', '--role', 'admin', ...flags)
  const text = readFileSync(file, 'utf8')
  t.notOk(text.includes(ann.stdout.trim()), 'the key itself is not in the file')
  if (process.platform !== 'win32') t.equal(statSync(file).mode & 0o777, 0o600)
  t.same(JSON.parse((await run('keys', 'list', '--json', ...flags)).stdout), [
    { name: 'ann', tenant: 'shop', role: 'user', requestsPerMinute: 60, tokensPerMinute: 9000 },
    { name: 'root', tenant: 'root', role: 'admin' },
  ])
  t.match((await run('keys', 'list', ...flags)).stdout, /ann.*shop.*user.*60.*9000/)
  const twice = await run('keys', 'add', 'ann', ...flags)
  t.equal(twice.code, 2)
  t.match(twice.stderr, /there is a key "ann" already/)

  const ring = openKeyRing({ apiKey: 'mine', file }, silentLogger, 20)!
  t.teardown(ring.close)
  t.match(ring.find(ann.stdout.trim()), { name: 'ann', tenant: 'shop', role: 'user' })
  t.match(ring.find(root.stdout.trim()), { role: 'admin' })
  t.match(ring.find('mine'), { role: 'admin' })
  t.equal(ring.find('other'), undefined)

  const other = ['--requests-per-minute', 'none', '--tokens-per-month', '5']
  t.match(await run('keys', 'limit', 'ann', ...other, ...flags), {
    code: 0,
    stderr: /limits of ann/,
  })
  t.same(JSON.parse((await run('keys', 'list', '--json', ...flags)).stdout)[0], {
    name: 'ann',
    tenant: 'shop',
    role: 'user',
    tokensPerMinute: 9000,
    tokensPerMonth: 5,
  })
  t.match((await run('keys', 'limit', 'bob', ...other, ...flags)).stderr, /there is no key "bob"/)
  t.match((await run('keys', 'limit', 'ann', ...flags)).stderr, /expected --requests-per-minute/)
  await until(() => ring.find(ann.stdout.trim())?.tokensPerMonth === 5)

  t.equal((await run('keys', 'revoke', 'ann', ...flags)).code, 0)
  t.match((await run('keys', 'revoke', 'ann', ...flags)).stderr, /there is no key "ann"/)
  await until(() => ring.find(ann.stdout.trim()) === undefined)
  t.ok(ring.find(root.stdout.trim()), 'the others stay')
})

t.test("a server's keys are changed in its file", async (t) => {
  const file = join(t.testdir(), 'keys.json')
  await run('keys', 'add', 'root', '--role', 'admin', '--api-keys', file)
  const ring = openKeyRing({ apiKey: null, file }, silentLogger)!
  const { store } = ring
  t.teardown(ring.close)
  const ann = { name: 'ann', tenant: 'shop', role: 'user', tokensPerMonth: 9 } as const
  const secret = await store!.add(ann)
  t.match(ring.find(secret), ann, 'before the file is looked at again')
  t.match(await store!.list(), [{ name: 'root' }, ann])
  const taken = { code: 'invalid_request', message: /there is a key "ann" already/ }
  await t.rejects(store!.add(ann), taken)
  t.same(await store!.limit('ann', { tokensPerMonth: null, requestsPerMinute: 3 }), {
    name: 'ann',
    tenant: 'shop',
    role: 'user',
    hash: ring.find(secret)?.hash,
    requestsPerMinute: 3,
  })
  t.equal(ring.find(secret)?.requestsPerMinute, 3, 'at once')
  await t.rejects(store!.limit('bob', {}), { message: /there is no key "bob"/ })
  await store!.remove('ann')
  t.equal(ring.find(secret), undefined)
  await t.rejects(store!.remove('ann'), { message: /there is no key "ann"/ })
  t.match(
    (await run('keys', 'list', '--json', '--api-keys', file)).stdout,
    /^\[\s+\{\s+"name": "root"[^}]+\}\s+\]/,
  )
  const one = openKeyRing({ apiKey: 'mine', file: null }, silentLogger)
  t.equal(one?.store, undefined, 'one that is set is in no file')
})

t.test('a file that breaks while the server runs changes nothing', async (t) => {
  const file = join(t.testdir(), 'keys.json')
  const { stdout: out } = await run('keys', 'add', 'ann', '--api-keys', file)
  const errors: string[] = []
  const error = (_: unknown, message: string) => errors.push(message)
  const ring = openKeyRing({ apiKey: null, file }, { ...silentLogger, error }, 20)!
  t.teardown(ring.close)
  writeFileSync(file, '{ "keys": [')
  await until(() => errors.length > 0)
  t.match(ring.find(out.trim()), { name: 'ann' })
  t.match(errors, [/stay as they were/])
  t.throws(() => openKeyRing({ apiKey: null, file }, silentLogger), {
    code: 'invalid_configuration',
  })
  t.throws(() => openKeyRing({ apiKey: null, file: '/no/such/keys' }, silentLogger), {
    message: /cllm keys add/,
  })
})

t.test('a file whose rights are corrected is read again', async (t) => {
  const folder = t.testdir()
  const file = join(folder, 'keys.json')
  const { stdout: out } = await run('keys', 'add', 'ann', '--api-keys', file)
  const key = JSON.parse(readFileSync(file, 'utf8')) as object
  const failures: string[] = []
  const error = ({ err }: { err?: Error }): void => void failures.push(err?.message ?? '')
  const ring = openKeyRing({ apiKey: null, file }, { ...silentLogger, error }, 20)!
  t.teardown(ring.close)
  // What cannot be read even by root: a link to a folder, whose rights never change.
  rmSync(file)
  symlinkSync(folder, file)
  await until(() => failures.length > 0)
  t.ok(ring.find(out.trim()), 'the keys stay as they were')
  rmSync(file)
  writeFileSync(file, JSON.stringify({ ...key, keys: [] }))
  await until(() => ring.find(out.trim()) === undefined)
  const [failure = '', ...again] = failures
  t.match(failure, `the keys cannot be read: expected a file at ${file}, found a folder`)
  t.same(again, [], 'the same is said once')
})

t.test('a change keeps the rights of the file, and a link to it', async (t) => {
  const folder = t.testdir()
  const [file, link] = [join(folder, 'keys.json'), join(folder, 'link.json')]
  await run('keys', 'add', 'ann', '--api-keys', file)
  chmodSync(file, 0o640)
  if (process.getuid?.() === 0) chownSync(file, 1234, 1234)
  const before = statSync(file)
  symlinkSync(file, link)
  t.equal((await run('keys', 'revoke', 'ann', '--api-keys', link)).code, 0)
  t.ok(lstatSync(link).isSymbolicLink())
  const { mode, uid, gid, ino } = statSync(file)
  t.not(ino, before.ino)
  t.match({ mode, uid, gid }, { mode: before.mode, uid: before.uid, gid: before.gid })
  t.same(readFileSync(link, 'utf8'), '{\n  "keys": []\n}\n')
})

t.test('who may not set the owner sets the group, and gives another group nothing', (t) => {
  const file = join(t.testdir({ keys: '' }), 'keys')
  const { uid, gid } = statSync(file)
  const before = { uid: uid + 1, gid: gid + 1, mode: 0o100660 }
  const taken: number[][] = []
  const asMember = (_: unknown, owner: number, group: number): void => {
    if (owner !== uid) throw new Error('EPERM')
    taken.push([owner, group])
  }
  takeRights(file, before, asMember)
  t.same(taken, [[uid, gid + 1]])
  t.equal(statSync(file).mode & 0o777, 0o660)
  takeRights(file, before, () => {
    throw new Error('EPERM')
  })
  t.equal(statSync(file).mode & 0o777, 0o600)
  takeRights(file, { ...before, gid }, () => {
    throw new Error('EPERM')
  })
  t.equal(statSync(file).mode & 0o777, 0o660, 'it has that group already')
  t.end()
})

t.test('a place where no file can be is told', async (t) => {
  const file = join(t.testdir({ file: '' }), 'file', 'keys.json')
  const { code, stderr: err } = await run('keys', 'add', 'ann', '--api-keys', file)
  t.equal(code, 2)
  t.match(err, /^error: the keys cannot be written: E.*keys\.json/)
})

t.test('wrong flags', async (t) => {
  const file = join(t.testdir(), 'keys.json')
  for (const [argv, message] of [
    [['add', 'x', '--role', 'boss', '--api-keys', file], /user, metrics or admin/],
    [['add', 'x', '--tokens-per-minute', '0', '--api-keys', file], /whole number from 1/],
    [['add', '--api-keys', file], /<name> is missing/],
    [['add', 'x'], /--api-keys FILE/],
    [['list', '--api-keys', file], /cannot be read/],
  ] as const) {
    const { code, stderr: err } = await run('keys', ...argv)
    t.equal(code, 2)
    t.match(err, message)
  }
})

t.test('who listens for others needs keys, or says that it does not', (t) => {
  const load = (...argv: readonly string[]) => loadConfig({ argv, env: {}, cwd: t.testdirName })
  for (const host of ['0.0.0.0', '192.168.1.5', '::', 'example.org']) {
    t.throws(() => load('--host', host), { message: /--allow-unauthenticated/ }, host)
    t.same(load('--host', host, '--allow-unauthenticated').warnings, [])
    t.same(load('--host', host, '--api-key', 'k').warnings, [])
  }
  for (const host of ['127.0.0.1', '127.1.2.3', '::1', 'localhost']) load('--host', host)
  const yaml = (text: string) =>
    loadConfig({ argv: ['--config', 'c.yaml'], env: {}, readFile: () => text })
  t.match(
    yaml('server: { host: 0.0.0.0, num_threads: 8 }').warnings.at(-1),
    /^WARNING! .*0\.0\.0\.0/,
  )
  t.throws(() => yaml('server: { host: 0.0.0.0 }'), { message: /--api-keys FILE/ })
  const several = { message: /127\.0\.0\.1,0\.0\.0\.0 can be reached by other machines/ }
  t.throws(() => yaml('server: { host: "127.0.0.1,0.0.0.0" }'), several, 'one of them')
  t.doesNotThrow(() => yaml('server: { host: "127.0.0.1,::1" }'))
  t.throws(() => load('--tls-cert', 'c.pem'), { message: /--tls-cert: expected --tls-key/ })
  t.throws(() => load('--requests-per-minute', '5'), { message: /needs --api-keys/ })
  t.end()
})

t.test('cllm config does not show the key', async (t) => {
  const loaded = loadConfig({ argv: [], env: { CLLM_API_KEY: 'top-secret' } })
  t.equal(loaded.config.security.api_key, 'top-secret')
  t.match(String(toDocument(loaded)), /api_key: null # CLLM_API_KEY, hidden\n/)
  for (const more of [[], ['--json']]) {
    const { stdout: out, stderr: err } = await run('config', '--api-key', 'top-secret', ...more)
    t.notMatch(out + err, 'top-secret')
  }
})
