import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { FaultResult } from '@cllm/bench'
import { plainEnvironment } from '@cllm/core/testing'
import { resolveModel } from 'cllm'
import t from 'tap'
import { benchFaults } from '../../src/commands/bench/bench-faults.js'

const bin = fileURLToPath(new URL('../../bin/cllm.js', import.meta.url))

t.test('cllm serve stands every fault', async (t) => {
  const { path } = await resolveModel('stories15m')
  const flags = ['--port', '0', '--slots', '4', '--threads', '1', '--gpu', 'off']
  const args = [bin, 'serve', '--model', path, ...flags, '--log-level', 'silent']
  const child = spawn(process.execPath, args, {
    env: plainEnvironment(process.env),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string]
  const url = line.replace('listening on ', '')

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
  const code = await benchFaults([...argv, ...times, '--json'], io)
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
