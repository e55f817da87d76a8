import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openUnloadedStates } from '../../../src/engine/memory/unloaded-states.js'

t.test('a server has a folder in memory, and removes what those that died have left', async (t) => {
  const memory = t.testdir({ other: 'file' })
  const { pid } = spawnSync(process.execPath, ['-e', ''])
  mkdirSync(join(memory, `cllm-states-${pid}-abc`, 'more'), { recursive: true })
  mkdirSync(join(memory, `cllm-states-${process.ppid}-def`))
  const states = openUnloadedStates(memory)!
  const { folder } = states
  t.equal(statSync(folder).mode & 0o777, 0o700)
  const own = folder.slice(memory.length + 1)
  t.same(readdirSync(memory).sort(), [`cllm-states-${process.ppid}-def`, own, 'other'].sort())
  states.remove()
  t.notOk(existsSync(folder))
  t.equal(openUnloadedStates(join(memory, 'none')), undefined)
})
