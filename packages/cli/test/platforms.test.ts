import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { killTree } from '@cllm/bench'
import t from 'tap'
import { replaceFile } from '../src/models/model-files.js'
import { stopSignal } from '../src/process/stop-signal.js'

const refusal = (code: string) => Object.assign(new Error(code), { code })

t.test('a file is replaced, on Windows also while somebody reads the old one', async (t) => {
  const folder = t.testdir({ old: 'old', new: 'new' })
  await replaceFile(join(folder, 'new'), join(folder, 'old'))
  t.equal(await readFile(join(folder, 'old'), 'utf8'), 'new')

  let attempts = 0
  const delays: number[] = []
  const busy = (code: string, until: number) => async () => {
    if (++attempts < until) throw refusal(code)
  }
  const delay = async (milliseconds: number) => void delays.push(milliseconds)
  await replaceFile('a', 'b', { platform: 'win32', rename: busy('EPERM', 4), delay })
  t.same([attempts, delays], [4, [100, 100, 100]])

  attempts = 0
  const always = { rename: busy('EBUSY', Infinity), delay }
  await t.rejects(replaceFile('a', 'b', { platform: 'win32', ...always }), { code: 'EBUSY' })
  t.equal(attempts, 20)
  for (const [platform, code] of [
    ['linux', 'EPERM'],
    ['win32', 'ENOENT'],
  ] as const) {
    attempts = 0
    const rename = busy(code, Infinity)
    await t.rejects(replaceFile('a', 'b', { platform, rename, delay }), { code })
    t.equal(attempts, 1, `${platform} ${code}`)
  }
})

t.test('a process and its children are ended as the system can', async (t) => {
  const done: unknown[] = []
  const run = (program: string, args: readonly string[]) => void done.push([program, ...args])
  const kill = (pid: number, signal: string) => {
    if (pid === -9) throw refusal('ESRCH')
    done.push([pid, signal])
  }
  killTree(undefined, 'SIGTERM', { platform: 'win32', run, kill })
  killTree(7, 'SIGTERM', { platform: 'win32', run, kill })
  killTree(7, 'SIGTERM', { platform: 'darwin', run, kill })
  killTree(9, 'SIGTERM', { platform: 'linux', run, kill })
  t.same(done, [
    ['taskkill', '/pid', '7', '/t', '/f'],
    [-7, 'SIGTERM'],
  ])
})

t.test("the engine's process is found in what the system lists", async (t) => {
  const script = new URL('../../../benchmarks/faults/engine-pid.mjs', import.meta.url)
  const { enginePid } = (await import(String(script))) as {
    enginePid: (
      server: number | undefined,
      engine: number | undefined,
      surroundings: { platform: NodeJS.Platform; run: (program: string) => Promise<string> },
    ) => { find(): Promise<number | undefined> }
  }
  for (const [platform, program, end] of [
    ['win32', 'powershell.exe', '\r\n'],
    ['linux', 'ps', '\n'],
  ] as const) {
    const asked: string[] = []
    const run = async (name: string) => {
      asked.push(name)
      return ['1 0 900', '12 7 100', ' 13   7 300', '14 8 999', ''].join(end)
    }
    t.equal(await enginePid(7, undefined, { platform, run }).find(), 13)
    t.equal(await enginePid(5, undefined, { platform, run }).find(), undefined)
    t.equal(await enginePid(7, 42, { platform, run }).find(), 42)
    t.equal(await enginePid(undefined, undefined, { platform, run }).find(), undefined)
    t.same(asked, [program, program])
  }
})

t.test('on Windows a console that is closed, and Ctrl-Break, end a command in order', async (t) => {
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGBREAK'] as const
  const before = new Map(names.map((name) => [name, process.listeners(name)]))
  t.teardown(() => {
    for (const [name, known] of before) {
      for (const own of process.listeners(name)) {
        if (!known.includes(own)) process.off(name, own)
      }
    }
  })
  const added = (name: NodeJS.Signals) =>
    process.listenerCount(name) - (before.get(name as 'SIGINT')?.length ?? 0)
  const here = stopSignal({}, 'linux')
  t.same(names.map(added), [1, 1, 0, 0], 'SIGHUP keeps its meaning where nohup relies on it')
  const signal = stopSignal({}, 'win32')
  t.same(names.map(added), [2, 2, 1, 1])
  process.emit('SIGBREAK', 'SIGBREAK')
  t.equal(signal.reason, 'SIGBREAK')
  t.notOk(here.aborted)
})
