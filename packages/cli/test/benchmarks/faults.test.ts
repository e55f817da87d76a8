// slow: waits for faults that take seconds each, 25 s
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { resolveModel } from 'cllm'
import t, { type Test } from 'tap'
import type { CommandIo } from '../../src/commands/command.js'
import { commandIo } from '../inside.js'
import { listening, start } from '../start-process.js'

const script = (name: string) =>
  String(new URL(`../../../../benchmarks/faults/${name}`, import.meta.url))
const { injectFaults } = (await import(script('inject-faults.mjs'))) as {
  injectFaults: (argv: readonly string[], io: CommandIo) => Promise<number>
}
const { faults } = (await import(script('run-faults.mjs'))) as {
  readonly faults: readonly { readonly name: string }[]
}

interface FaultResult {
  readonly fault: string
  readonly verdict: 'pass' | 'fail' | 'skip'
  readonly came: string
}

interface Card {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  readonly faults: readonly FaultResult[]
}

async function inject(url: string, ...more: readonly string[]) {
  const io = commandIo()
  const small = ['--clients', '4', '--tokens', '8', '--sockets', '20']
  const code = await injectFaults(['--target', url, '--json', ...small, ...more], io)
  return { code, card: JSON.parse(io.written.stdout) as Card }
}

/**
 * A server that does all wrong: it takes any bytes for a request, one for each connection, computes
 * one after the other to its end whoever has left, and then closes. Long ones take it for ever.
 */
async function badServer(t: Test): Promise<string> {
  const open = new Set<Socket>()
  const waiting: (() => void)[] = []
  let isBusy = false
  const serve = () => {
    if (isBusy) return
    waiting.shift()?.()
  }
  const server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => undefined)
    socket.once('data', (data) => {
      const isLong = !data.includes('Once upon') && !data.includes('Hello')
      waiting.push(() => {
        isBusy = isLong
        socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n')
        socket.write('data: {"token":"x","done":false}\n\n')
        if (!isLong) socket.end('data: {"token":"","done":true}\n\n', serve)
      })
      serve()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('a bad server fails, each fault for its reason', async (t) => {
  const reasons: Readonly<Record<string, RegExp>> = {
    'disconnect: queued': /disconnected while queued.*; the canary afterwards: no end/,
    'disconnect: prefill': /before their first token; the canary afterwards: no end/,
    'disconnect: decode': /during their answers; the canary afterwards: no end/,
    'disconnect: no stream': /end of their answers; the canary afterwards: no end/,
    'slow reader': /meanwhile: no end/,
    'half-open sockets': /meanwhile: no end/,
    'garbage bytes': /^200|no answer in time/,
    'garbage in the body': /^200|no answer in time/,
    'oversized body': /^200|no answer in time/,
    'oversized headers': /^200|no answer in time/,
    'pipelined requests': /4 sent: 200/,
    'many connections': /left waiting|meanwhile/,
  }
  const times = ['--recovery', '200ms', '--restart', '3s']
  for (const { name } of faults) {
    const reason = reasons[name]
    if (reason === undefined) continue
    const { code, card } = await inject(await badServer(t), '--only', name, ...times)
    t.equal(code, 1, name)
    t.match(card, {
      passed: 0,
      failed: 1,
      faults: [{ fault: name, verdict: 'fail', came: reason }],
    })
  }
})

t.test('what is asked for must be there', async (t) => {
  const url = await badServer(t)
  await t.rejects(inject(url, '--only', 'flood'), {
    message: /--only: expected disconnect.*"flood"/,
  })
  await t.rejects(injectFaults([], {} as never), { message: /--target is missing/ })
  const { code, card } = await inject(url, '--only', 'engine', '--only', 'clock')
  t.equal(code, 0)
  t.same(
    card.faults.map(({ verdict, came }) => [verdict, came]),
    [
      ['skip', 'needs --pid or --engine-pid'],
      ['skip', 'needs --pid or --engine-pid'],
      ['skip', 'cannot be done over HTTP'],
    ],
  )
})

t.test('cllm serve survives every fault', async (t) => {
  const { path } = await resolveModel('stories15m')
  const flags = ['--port', '0', '--slots', '4', '--threads', '1', '--gpu', 'off']
  const child = start(t, ['serve', '--model', path, ...flags, '--log-level', 'silent'])
  const { url } = await listening(t, child)

  let output = ''
  const io = {
    stdout: { write: (text: string) => void (output += text) },
    stderr: { write: () => undefined },
    env: {},
    signal: new AbortController().signal,
  }
  // Times are long: other tests may have the machine.
  const times = ['--recovery', '2m', '--restart', '2m', '--stop', '200ms']
  const argv = ['--target', url, '--pid', String(child.pid), '--clients', '8', '--tokens', '60']
  const code = await injectFaults([...argv, ...times, '--json'], io)
  const card = JSON.parse(output) as { failed: number; faults: FaultResult[] }
  t.same(
    card.faults.filter(({ verdict }) => verdict === 'fail'),
    [],
  )
  t.equal(code, 0)
  t.equal(card.faults.length, 15)
  const { came } = card.faults.find(({ fault }) => fault === 'engine: kill -9')!
  // What a sequence shares a pass with changes the rounding, so a close choice may fall otherwise.
  t.match(came, /^2 of 2 streams completed, [12] of them with the same text$/)
  const health = await fetch(`${url}/health/ready`)
  t.equal(health.status, 200)
})
