import { availableParallelism } from 'node:os'
import t from 'tap'
import { availableCores } from '../../src/engine/available-cores.js'
import { availableMemory } from '../../src/engine/available-memory.js'

t.test('cores that a process may use', async (t) => {
  const files =
    (contents: Readonly<Record<string, string>>) =>
    (file: string): string => {
      const content = contents[file.replace('/sys/fs/cgroup/', '')]
      if (content === undefined) throw new Error('ENOENT')
      return content
    }
  t.equal(availableCores(8, files({})), 8, 'no cgroups')
  t.equal(availableCores(8, files({ 'cpu.max': 'max 100000\n' })), 8, 'no limit')
  t.equal(availableCores(8, files({ 'cpu.max': '200000 100000\n' })), 2)
  t.equal(availableCores(8, files({ 'cpu.max': '150000 100000\n' })), 2)
  t.equal(availableCores(2, files({ 'cpu.max': '400000 100000\n' })), 2)
  const old = (quota: string) => ({
    'cpu/cpu.cfs_quota_us': quota,
    'cpu/cpu.cfs_period_us': '100000\n',
  })
  t.equal(availableCores(8, files(old('300000\n'))), 3)
  t.equal(availableCores(8, files(old('-1\n'))), 8)
  const here = availableCores()
  t.ok(here >= 1 && here <= availableParallelism())
})

t.test('what a process may still take', async (t) => {
  const total = 20e9
  t.equal(availableMemory(0, { limit: undefined, total, used: 1e9 }), 19e9)
  t.equal(availableMemory(0, { limit: 0, total, used: 1e9 }), 19e9)
  t.equal(availableMemory(0, { limit: 8e9, total, used: 1e9 }), 7e9)
  t.equal(availableMemory(4e9, { limit: 8e9, total, used: 1e9 }), 3e9, 'beside other engines')
  t.equal(availableMemory(0, { limit: 8e9, total, used: 9e9 }), 0)
  t.ok(availableMemory() > 0)
})
